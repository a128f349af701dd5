#include "training.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <exception>
#include <thread>

namespace shardlight::engine {
namespace {

TestModel without_aliases(TestModel model) {
  decltype(model.parameters) unique;
  for (const auto& named : model.parameters) {
    const bool known = std::ranges::any_of(
        unique, [&](const auto& other) { return other.second.is_same(named.second); });
    if (!known) unique.push_back(named);
  }
  model.parameters = unique;
  return model;
}

void read_all(Engine& engine, const TestModel& model, const Optimizer& optimizer,
              Outcome& outcome) {
  for (const auto& [name, parameter] : without_aliases(model).parameters) {
    {
      const at::NoGradGuard no_grad;  // reading is no part of a micro-step
      const auto scope = engine.gathered({parameter});
      outcome.parameters[name] = parameter.detach().clone();
    }
    if (!parameter.requires_grad() || std::holds_alternative<SGD>(optimizer)) continue;
    outcome.states[name + "/exp_avg"] = engine.optimizer_state(parameter, "exp_avg");
    outcome.states[name + "/exp_avg_sq"] = engine.optimizer_state(parameter, "exp_avg_sq");
  }
}

constexpr std::uint64_t kSeed = 17;

void train_rank(const Training& run, const Ranks& ranks, const TestModel& model, Outcome& outcome) {
  const auto rank = static_cast<std::size_t>(ranks.rank.value());
  Options options = run.options;
  options.ranks = ranks;
  Outcome ignored;
  Outcome& kept = rank == 0 ? outcome : ignored;
  Engine engine(model.parameters, model.buffers, run.optimizer, options);
  for (std::int64_t step = 0; step < run.steps; ++step) {
    for (std::int64_t micro = 0; micro < options.accumulation; ++micro) {
      const std::int64_t micro_batch = ranks.rank.value() * options.accumulation + micro;
      const at::Tensor loss = model.loss(step, micro_batch);
      outcome.losses[rank].push_back(loss.item<double>());
      engine.backward(loss);
    }
    for (const auto& [name, parameter] : without_aliases(model).parameters) {
      if (!parameter.requires_grad()) continue;
      kept.gradients[std::to_string(step) + "/" + name] = engine.gradient(parameter);
    }
    // A gradient that another rank still reads may not be overwritten: step() waits for all.
    kept.norms.push_back(engine.step().gradient_norm);
  }
  read_all(engine, model, run.optimizer, kept);
  outcome.memory[rank] = engine.memory();
  outcome.traffic[rank] = engine.traffic();
  engine.close();
}

}  // namespace

Outcome train(const Training& run) {
  const auto world = static_cast<std::size_t>(run.world);
  Outcome outcome;
  outcome.losses.resize(world);
  outcome.memory.resize(world);
  outcome.traffic.resize(world);
  const std::vector<Ranks> ranks = ranks_as_threads(run.world);
  std::vector<std::exception_ptr> errors(world);
  // Torch's generator belongs to the process, so models are made one by one. Rank 0's values win.
  std::vector<TestModel> models;
  for (std::size_t rank = 0; rank < world; ++rank) {
    models.push_back(make_model(run.model, kSeed + rank));
  }
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        train_rank(run, ranks[rank], models[rank], outcome);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return outcome;
}

namespace {

// Adds gradients in the engine's order: what is undefined is left out.
class Sum {
 public:
  void add(const at::Tensor& gradient) {
    if (!gradient.defined()) return;
    sum_ = sum_.defined() ? sum_ + gradient : gradient.clone();
  }
  const at::Tensor& get() const { return sum_; }

 private:
  at::Tensor sum_;
};

std::vector<at::Tensor> gradients_of(const TestModel& model, const at::Tensor& loss) {
  loss.backward();
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : model.parameters) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

}  // namespace

Outcome train_plainly(const Training& run, bool once) {
  at::set_num_threads(1);
  const TestModel model = without_aliases(make_model(run.model, kSeed));
  const std::int64_t accumulation = run.options.accumulation;
  Outcome outcome;
  outcome.losses.resize(static_cast<std::size_t>(run.world));
  const auto& adamw = std::get<AdamW>(run.optimizer);
  std::map<std::string, at::Tensor> m, v;
  std::map<std::string, std::int64_t> steps;
  for (std::int64_t step = 0; step < run.steps; ++step) {
    std::vector<Sum> sums(model.parameters.size());
    // [rank][micro][parameter]
    std::vector<std::vector<std::vector<at::Tensor>>> all;
    for (std::int64_t rank = 0; rank < run.world; ++rank) {
      auto& mine = all.emplace_back();
      for (std::int64_t micro = 0; micro < accumulation; ++micro) {
        const at::Tensor loss = model.loss(step, rank * accumulation + micro);
        outcome.losses[static_cast<std::size_t>(rank)].push_back(loss.item<double>());
        mine.push_back(gradients_of(model, loss));
      }
    }
    for (std::size_t p = 0; p < sums.size(); ++p) {
      if (once) {
        for (const auto& rank : all) {
          Sum own;
          for (const auto& micro : rank) own.add(micro[p]);
          sums[p].add(own.get());
        }
      } else {
        for (std::size_t micro = 0; micro < static_cast<std::size_t>(accumulation); ++micro) {
          for (const auto& rank : all) sums[p].add(rank[micro][p]);
        }
      }
    }
    const at::NoGradGuard no_grad;
    const double mean = 1.0 / static_cast<double>(run.world * accumulation);
    double squares = 0;
    std::vector<at::Tensor> gradients;
    for (const Sum& sum : sums) {
      gradients.push_back(sum.get().defined() ? sum.get() * mean : sum.get());
      if (sum.get().defined())
        squares += gradients.back().to(at::kDouble).square().sum().item<double>();
    }
    outcome.norms.push_back(std::sqrt(squares));
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const auto& [name, parameter] = model.parameters[p];
      if (!parameter.requires_grad()) continue;
      const bool known = !m.emplace(name, at::zeros_like(parameter)).second;
      if (!known) v.emplace(name, at::zeros_like(parameter));
      outcome.gradients[std::to_string(step) + "/" + name] =
          gradients[p].defined() ? gradients[p].clone() : at::zeros_like(parameter);
      if (!gradients[p].defined()) continue;
      if (run.options.clip_norm) {
        gradients[p] *= std::min(1.0, *run.options.clip_norm / (outcome.norms.back() + 1e-6));
      }
      const at::Tensor count = at::full({}, static_cast<double>(++steps[name]), at::kFloat);
      at::_fused_adamw_({parameter}, {gradients[p]}, {m[name]}, {v[name]}, {}, {count}, adamw.lr,
                        adamw.beta1, adamw.beta2, adamw.weight_decay, adamw.epsilon, false, false);
    }
  }
  for (const auto& [name, parameter] : model.parameters) {
    outcome.parameters[name] = parameter.detach().clone();
    if (!parameter.requires_grad()) continue;
    outcome.states[name + "/exp_avg"] = m[name];
    outcome.states[name + "/exp_avg_sq"] = v[name];
  }
  return outcome;
}

namespace {

std::string difference_of(const std::string& what, const std::map<std::string, at::Tensor>& a,
                          const std::map<std::string, at::Tensor>& b) {
  if (a.size() != b.size()) return what + ": other names";
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return what + " " + name + " is missing";
    if (tensor.equal(other->second)) continue;
    const at::Tensor apart = (tensor - other->second).abs();
    return what + " " + name + " differs by " + std::to_string(apart.max().item<double>());
  }
  return "";
}

}  // namespace

std::string difference(const Outcome& a, const Outcome& b) {
  if (a.losses != b.losses) return "losses differ";
  for (const auto& found : {difference_of("gradient", a.gradients, b.gradients),
                            difference_of("parameter", a.parameters, b.parameters),
                            difference_of("state", a.states, b.states)}) {
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace shardlight::engine
