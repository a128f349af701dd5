#include "training.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>

namespace shardlight::engine {
namespace {

constexpr std::uint64_t kSeed = 17;

void read_all(Engine& engine, const TestModel& model, const Optimizer& optimizer,
              Outcome& outcome) {
  for (const auto& [name, parameter] : unique_parameters(model)) {
    {
      const at::NoGradGuard no_grad;  // reading is no part of a micro-step
      const auto scope = engine.gathered({parameter});
      outcome.parameters[name] = parameter.detach().clone();
    }
    if (!parameter.requires_grad()) continue;
    auto states = state_names(optimizer);
    if (parameter.scalar_type() != at::kFloat) states.emplace_back("master");
    for (const std::string& state : states) {
      outcome.states[name + "/" + state] = engine.optimizer_state(parameter, state);
    }
  }
}

// One outcome of all ranks', which must agree.
Outcome merge(const std::vector<Outcome>& ranks) {
  Outcome merged = ranks.front();
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (const auto found = difference_of_values(ranks[rank], merged); !found.empty()) {
      throw std::runtime_error("rank " + std::to_string(rank) + " sees other values: " + found);
    }
    merged.losses[rank] = ranks[rank].losses[rank];
    merged.memory[rank] = ranks[rank].memory[rank];
    merged.traffic[rank] = ranks[rank].traffic[rank];
  }
  return merged;
}

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

std::vector<std::pair<std::string, at::Tensor>> unique_parameters(const TestModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> unique;
  for (const auto& named : model.parameters) {
    const bool known = std::ranges::any_of(
        unique, [&](const auto& other) { return other.second.is_same(named.second); });
    if (!known) unique.push_back(named);
  }
  return unique;
}

std::vector<std::string> state_names(const Optimizer& optimizer) {
  if (std::holds_alternative<Lion>(optimizer)) return {"exp_avg"};
  if (std::holds_alternative<TorchOptimizer>(optimizer)) return {};
  const auto* sgd = std::get_if<SGD>(&optimizer);
  if (sgd == nullptr) return {"exp_avg", "exp_avg_sq"};
  if (sgd->momentum > 0) return {"momentum_buffer"};
  return {};
}

TestModel model_of_rank(const Training& run, std::int64_t rank) {
  return make_model(run.model, kSeed + static_cast<std::uint64_t>(rank));
}

Engine make_engine(const Training& run, const Ranks& ranks, const TestModel& model) {
  at::set_num_threads(1);
  Options options = run.options;
  options.ranks = ranks;
  return {model.parameters, model.buffers, run.optimizer, options};
}

namespace {

std::vector<double> accumulate_losses(Engine& engine, const Training& run, const TestModel& model,
                                      std::int64_t step) {
  const std::int64_t accumulation = run.options.accumulation;
  std::vector<double> losses;
  for (std::int64_t micro = 0; micro < accumulation; ++micro) {
    const at::Tensor loss = model.loss(step, engine.rank().value() * accumulation + micro);
    losses.push_back(loss.item<double>());
    engine.backward(loss);
  }
  return losses;
}

}  // namespace

void accumulate(Engine& engine, const Training& run, const TestModel& model, std::int64_t step) {
  accumulate_losses(engine, run, model, step);
}

Outcome train_rank(const Training& run, const Ranks& ranks, const TestModel& model) {
  const auto rank = static_cast<std::size_t>(ranks.rank.value());
  const auto world = static_cast<std::size_t>(run.world);
  Outcome outcome;
  outcome.losses.resize(world);
  outcome.memory.resize(world);
  outcome.traffic.resize(world);
  Engine engine = make_engine(run, ranks, model);
  for (std::int64_t step = 0; step < run.steps; ++step) {
    const auto losses = accumulate_losses(engine, run, model, step);
    outcome.losses[rank].insert(outcome.losses[rank].end(), losses.begin(), losses.end());
    for (const auto& [name, parameter] : unique_parameters(model)) {
      if (!parameter.requires_grad()) continue;
      outcome.gradients[std::to_string(step) + "/" + name] = engine.gradient(parameter);
    }
    outcome.norms.push_back(engine.step().gradient_norm);
  }
  read_all(engine, model, run.optimizer, outcome);
  outcome.memory[rank] = engine.memory();
  outcome.traffic[rank] = engine.traffic();
  engine.close();
  return outcome;
}

std::uint64_t hash_of(const at::Tensor& tensor, std::uint64_t before) {
  return comm::hash_of_text({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()},
                            before);
}

void on_threads(const Training& run, const RankBody& body) {
  const auto world = static_cast<std::size_t>(run.world);
  const std::vector<Ranks> ranks = ranks_as_threads(run.world);
  std::vector<std::exception_ptr> errors(world);
  // Torch's generator belongs to the process, so models are made one by one.
  std::vector<TestModel> models;
  for (std::int64_t rank = 0; rank < run.world; ++rank) models.push_back(model_of_rank(run, rank));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        body(ranks[rank], models[rank]);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

Outcome train(const Training& run) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(run.world));
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    outcomes[static_cast<std::size_t>(ranks.rank.value())] = train_rank(run, ranks, model);
  });
  return merge(outcomes);
}

std::string difference_of_values(const Outcome& a, const Outcome& b) {
  for (const auto& found : {difference_of("gradient", a.gradients, b.gradients),
                            difference_of("parameter", a.parameters, b.parameters),
                            difference_of("state", a.states, b.states)}) {
    if (!found.empty()) return found;
  }
  return a.norms == b.norms ? "" : "norms differ";
}

std::string difference(const Outcome& a, const Outcome& b) {
  return a.losses == b.losses ? difference_of_values(a, b) : "losses differ";
}

std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
  return kNothingThrown;
}

}  // namespace shardlight::engine
