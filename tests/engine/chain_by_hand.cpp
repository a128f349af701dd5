// The chain as a plain loop of torch trains it: states by tensor, that end when it is frozen or
// gone, and begin anew.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <set>

#include "chain.h"
#include "shardlight/engine/exact_sum.h"

namespace shardlight::engine {
namespace {

struct Kept {
  at::Tensor master;  // of 16-bit parameters, else the parameter
  std::map<std::string, at::Tensor> states;
  std::int64_t steps = 0;
};

class ByHand {
 public:
  explicit ByHand(const ChainRun& run) : run_(&run), chain_(run.type) {
    if (run.start) run.start(chain_);
    outcome_.losses.resize(static_cast<std::size_t>(run.world));
    take_model();
  }

  Outcome train() {
    for (std::int64_t step = 0; step < run_->steps; ++step) {
      if (const auto found = run_->changes.find(step); found != run_->changes.end()) {
        found->second(chain_);
        take_model();
      }
      take_step(step);
    }
    keep_removed(chain_, outcome_);
    return outcome_;
  }

 private:
  bool half() const { return run_->type != at::kFloat; }
  double scale() const { return run_->type == at::kHalf ? run_->options.loss_scaling.initial : 1; }

  void take_model() {
    std::set<const void*> trained;
    parameters_ = unique_parameters(
        {.module = {}, .parameters = chain_.parameters(), .buffers = {}, .loss = {}});
    for (const auto& [name, parameter] : parameters_) {
      if (!parameter.requires_grad()) continue;
      const void* const key = parameter.unsafeGetTensorImpl();
      trained.insert(key);
      const auto [kept, is_new] = kept_.try_emplace(key);
      if (!is_new) {
        if (half()) follow_edits(kept->second.master, parameter);
        continue;
      }
      kept->second.master = half() ? parameter.detach().to(at::kFloat) : parameter.detach();
      for (const std::string& state : state_names(run_->optimizer)) {
        kept->second.states[state] = at::zeros_like(kept->second.master);
      }
    }
    std::erase_if(kept_, [&](const auto& kept) { return !trained.contains(kept.first); });
  }

  // Where the parameter no longer is the master's rounding.
  void follow_edits(const at::Tensor& master, const at::Tensor& parameter) const {
    const at::NoGradGuard no_grad;
    const at::Tensor edited = parameter.ne(master.to(run_->type));
    master.copy_(at::where(edited, parameter.to(at::kFloat), master));
  }

  void take_step(std::int64_t step) {
    std::map<std::string, at::Tensor> sums;
    for (std::int64_t rank = 0; rank < run_->world; ++rank) {
      const at::Tensor loss = chain_.loss(step, rank);
      outcome_.losses[static_cast<std::size_t>(rank)].push_back(loss.item<double>());
      (loss * scale()).backward();
      for (const auto& [name, parameter] : parameters_) {
        if (!parameter.grad().defined()) continue;
        const at::Tensor gradient = parameter.grad().to(at::kFloat, false, /*copy=*/true);
        parameter.mutable_grad().reset();
        at::Tensor& sum = sums[name];
        sum = sum.defined() ? sum + gradient : gradient;
      }
    }
    const double mean = 1 / (static_cast<double>(run_->world) * scale());
    ExactSum squares;
    for (const auto& [name, sum] : sums) {
      const at::Tensor flat = sum.contiguous();
      squares.add_squares({flat.const_data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
    }
    const double norm = std::sqrt(squares.value()) * mean;
    outcome_.norms.push_back(norm);
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : parameters_) {
      if (const auto sum = sums.find(name); sum != sums.end()) {
        at::Tensor gradient = sum->second * mean;
        if (run_->options.clip_norm) {
          gradient *= std::min(1.0, *run_->options.clip_norm / (norm + 1e-6));
        }
        step_one(step, parameter, gradient);
      }
      keep(std::to_string(step) + "/" + name, parameter);
    }
  }

  void step_one(std::int64_t step, const at::Tensor& parameter, const at::Tensor& gradient) {
    Kept& kept = kept_.at(parameter.unsafeGetTensorImpl());
    const double factor = run_->options.lr_schedule ? run_->options.lr_schedule(step) : 1;
    const at::Tensor steps = at::full({}, static_cast<double>(++kept.steps), at::kFloat);
    if (const auto* x = std::get_if<AdamW>(&run_->optimizer)) {
      at::_fused_adamw_({kept.master}, {gradient}, {kept.states.at("exp_avg")},
                        {kept.states.at("exp_avg_sq")}, {}, {steps}, x->lr * factor, x->beta1,
                        x->beta2, x->weight_decay, x->epsilon, false, false);
    } else {
      const auto& sgd = std::get<SGD>(run_->optimizer);
      at::_fused_sgd_({kept.master}, {gradient}, {kept.states.at("momentum_buffer")},
                      sgd.weight_decay, sgd.momentum, sgd.lr * factor, 0, false, false,
                      kept.steps == 1);
    }
    if (half()) parameter.detach().copy_(kept.master);
  }

  void keep(const std::string& key, const at::Tensor& parameter) {
    outcome_.parameters[key] = parameter.detach().clone();
    if (!parameter.requires_grad()) return;
    const Kept& kept = kept_.at(parameter.unsafeGetTensorImpl());
    for (const auto& [name, state] : kept.states) {
      outcome_.states[std::string(key).append("/").append(name)] = state.clone();
    }
    if (half()) outcome_.states[key + "/master"] = kept.master.clone();
  }

  const ChainRun* run_;
  Chain chain_;
  Engine::NamedTensors parameters_;
  std::map<const void*, Kept> kept_;
  Outcome outcome_;
};

}  // namespace

Outcome train_chain_by_hand(const ChainRun& run) {
  at::set_num_threads(1);
  return ByHand(run).train();
}

}  // namespace shardlight::engine
