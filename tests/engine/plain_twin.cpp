#include "plain_twin.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fnmatch.h>
#include <torch/nn/utils/clip_grad.h>

#include "shardlight/engine/exact_sum.h"

namespace shardlight::engine {
namespace {

using Gradients = std::vector<at::Tensor>;  // by parameter; undefined where there is none

// What is undefined is left out. The sum of 16-bit gradients is theirs in fp32, rounded.
at::Tensor plus(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return (a.to(at::kFloat) + b.to(at::kFloat)).to(a.scalar_type());
}

class Twin {
 public:
  Twin(const Training& run, Clipping clipping, TwinEdit edit)
      : run_(&run),
        clipping_(clipping),
        edit_(std::move(edit)),
        model_(model_of_rank(run, 0)),
        parameters_(unique_parameters(model_)) {
    outcome_.losses.resize(static_cast<std::size_t>(run.world));
  }

  Outcome train() {
    for (std::int64_t step = 0; step < run_->steps; ++step) {
      take_step(step);
      if (edit_) edit_(model_);
    }
    for (const auto& [name, parameter] : parameters_) {
      outcome_.parameters[name] = parameter.detach().clone();
    }
    for (const auto& [name, state] : states_) outcome_.states[name] = state;
    return outcome_;
  }

 private:
  void take_step(std::int64_t step) {
    std::vector<Gradients> leaves;  // by global micro-batch
    for (std::int64_t batch = 0; batch < run_->world * run_->options.accumulation; ++batch) {
      const at::Tensor loss = model_.loss(step, batch);
      outcome_.losses[static_cast<std::size_t>(batch / run_->options.accumulation)].push_back(
          loss.item<double>());
      (loss * scale()).backward();
      Gradients& mine = leaves.emplace_back();
      for (const auto& [name, parameter] : parameters_) {
        mine.push_back(parameter.grad());
        parameter.mutable_grad().reset();
        if (run_->options.grad_dtype == plan::GradientDtype::kFp32) in_fp32(mine.back());
      }
    }
    const at::NoGradGuard no_grad;
    Gradients sums = added(leaves);
    for (at::Tensor& sum : sums) in_fp32(sum);
    outcome_.norms.push_back(norm_of(sums));
    Gradients means;
    for (const at::Tensor& sum : sums) means.push_back(sum.defined() ? sum * mean() : sum);
    for (std::size_t p = 0; p < means.size(); ++p) keep_gradient(step, p, means[p]);
    clip(means);
    if (run_->plain) return step_together(step, means);
    for (std::size_t p = 0; p < means.size(); ++p) {
      if (means[p].defined()) step_parameter(step, p, means[p]);
    }
  }

  static void in_fp32(at::Tensor& gradient) {
    if (gradient.defined()) gradient = gradient.to(at::kFloat);
  }

  double mean() const {
    return 1.0 / (static_cast<double>(run_->world) *
                  static_cast<double>(run_->options.accumulation) * scale());
  }

  // As long as no step is skipped and few are taken.
  double scale() const {
    const bool half = std::ranges::any_of(parameters_, [](const auto& parameter) {
      return parameter.second.scalar_type() == at::kHalf;
    });
    return half ? run_->options.loss_scaling.initial : 1;
  }

  Gradients added(const std::vector<Gradients>& leaves) const {
    Gradients sums(parameters_.size());
    const auto world = static_cast<std::size_t>(run_->world);
    const auto accumulation = static_cast<std::size_t>(run_->options.accumulation);
    for (std::size_t p = 0; p < sums.size(); ++p) {
      if (run_->options.reproducible) {
        sums[p] = tree(leaves, p, 0, leaves.size());
      } else if (run_->options.reduce == plan::ReduceSetting::kOnce) {
        for (std::size_t rank = 0; rank < world; ++rank) {
          at::Tensor own;
          for (std::size_t micro = 0; micro < accumulation; ++micro) {
            own = plus(own, leaves[rank * accumulation + micro][p]);
          }
          sums[p] = plus(sums[p], own);
        }
      } else {
        for (std::size_t micro = 0; micro < accumulation; ++micro) {
          for (std::size_t rank = 0; rank < world; ++rank) {
            sums[p] = plus(sums[p], leaves[rank * accumulation + micro][p]);
          }
        }
      }
    }
    return sums;
  }

  // Of a power of two of leaves.
  static at::Tensor tree(const std::vector<Gradients>& leaves, std::size_t p, std::size_t begin,
                         std::size_t end) {
    if (end - begin == 1) return leaves[begin][p];
    const std::size_t middle = begin + (end - begin) / 2;
    return plus(tree(leaves, p, begin, middle), tree(leaves, p, middle, end));
  }

  double norm_of(const Gradients& sums) const {
    ExactSum squares;
    for (const at::Tensor& sum : sums) {
      if (!sum.defined()) continue;
      const at::Tensor flat = sum.contiguous();
      squares.add_squares({flat.const_data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
    }
    return std::sqrt(squares.value()) * mean();
  }

  void keep_gradient(std::int64_t step, std::size_t p, const at::Tensor& gradient) {
    const auto& [name, parameter] = parameters_[p];
    if (!parameter.requires_grad()) return;
    outcome_.gradients[std::to_string(step) + "/" + name] =
        gradient.defined() ? gradient.to(parameter.scalar_type(), false, /*copy=*/true)
                           : at::zeros_like(parameter);
    for (const std::string& state : state_names(run_->optimizer)) {
      states_.try_emplace(name + "/" + state, at::zeros_like(parameter, at::kFloat));
    }
    if (parameter.scalar_type() == at::kFloat) return;
    states_.try_emplace(name + "/master", parameter.detach().to(at::kFloat));
  }

  void clip(Gradients& means) const {
    if (!run_->options.clip_norm) return;
    if (clipping_ == Clipping::kAsTheEngine) {
      const double factor = *run_->options.clip_norm / (outcome_.norms.back() + 1e-6);
      for (at::Tensor& gradient : means) {
        if (gradient.defined() && factor < 1) gradient *= factor;
      }
      return;
    }
    for (std::size_t p = 0; p < means.size(); ++p) parameters_[p].second.mutable_grad() = means[p];
    std::vector<at::Tensor> tensors;
    for (const auto& [name, parameter] : parameters_) tensors.push_back(parameter);
    torch::nn::utils::clip_grad_norm_(tensors, *run_->options.clip_norm);
    for (const at::Tensor& tensor : tensors) tensor.mutable_grad().reset();
  }

  void step_together(std::int64_t step, const Gradients& means) {
    if (!plain_step_) {
      for (const auto& [name, parameter] : parameters_) {
        const bool half = parameter.scalar_type() != at::kFloat;
        if (half && parameter.requires_grad()) {
          stepped_.emplace_back(name, states_.at(name + "/master"));
        } else {
          stepped_.emplace_back(name, parameter.detach());
        }
      }
      plain_step_ = run_->plain(stepped_);
    }
    for (std::size_t p = 0; p < means.size(); ++p) stepped_[p].second.mutable_grad() = means[p];
    plain_step_(step);
    for (std::size_t p = 0; p < means.size(); ++p) {
      stepped_[p].second.mutable_grad().reset();
      const at::Tensor& parameter = parameters_[p].second;
      if (parameter.scalar_type() != at::kFloat && parameter.requires_grad()) {
        parameter.detach().copy_(stepped_[p].second);
      }
    }
  }

  void step_parameter(std::int64_t step, std::size_t p, const at::Tensor& gradient) {
    const auto& [name, parameter] = parameters_[p];
    const bool half = parameter.scalar_type() != at::kFloat;
    const at::Tensor stepped = half ? states_.at(name + "/master") : parameter;
    double lr = 0, weight_decay = 0;
    std::visit(
        [&](const auto& x) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(x)>, TorchOptimizer>) {
            lr = x.lr, weight_decay = x.weight_decay;
          }
        },
        run_->optimizer);
    for (const ParameterGroup& group : run_->options.groups) {
      if (fnmatch(group.patterns.front().c_str(), name.c_str(), 0) != 0) continue;
      lr = group.lr.value_or(lr);
      weight_decay = group.weight_decay.value_or(weight_decay);
      break;
    }
    if (run_->options.lr_schedule) lr *= run_->options.lr_schedule(step);
    const std::int64_t count = ++counts_[name];
    const at::Tensor steps = at::full({}, static_cast<double>(count), at::kFloat);
    const auto state = [&](const char* which) { return states_.at(name + "/" + which); };
    if (const auto* x = std::get_if<AdamW>(&run_->optimizer)) {
      at::_fused_adamw_({stepped}, {gradient}, {state("exp_avg")}, {state("exp_avg_sq")}, {},
                        {steps}, lr, x->beta1, x->beta2, weight_decay, x->epsilon, false, false);
    } else if (const auto* y = std::get_if<Adam>(&run_->optimizer)) {
      at::_fused_adam_({stepped}, {gradient}, {state("exp_avg")}, {state("exp_avg_sq")}, {},
                       {steps}, lr, y->beta1, y->beta2, weight_decay, y->epsilon, false, false);
    } else if (const auto* z = std::get_if<SGD>(&run_->optimizer)) {
      std::vector<at::Tensor> momentum;
      if (z->momentum > 0) momentum.push_back(state("momentum_buffer"));
      at::_fused_sgd_({stepped}, {gradient}, momentum, weight_decay, z->momentum, lr, 0, false,
                      false, count == 1);
    } else if (const auto* lion = std::get_if<Lion>(&run_->optimizer)) {
      const at::Tensor momentum = state("exp_avg");
      const at::Tensor blend = momentum.mul(lion->beta1).add_(gradient, 1 - lion->beta1);
      stepped.mul_(1 - lr * weight_decay).sub_(at::sign(blend), lr);
      momentum.mul_(lion->beta2).add_(gradient, 1 - lion->beta2);
    }
    if (half) parameter.detach().copy_(stepped);
  }

  const Training* run_;
  Clipping clipping_;
  TwinEdit edit_;
  TestModel model_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::map<std::string, at::Tensor> states_;  // by "name/state"
  std::map<std::string, std::int64_t> counts_;
  Stepped stepped_;
  PlainStep plain_step_;
  Outcome outcome_;
};

}  // namespace

Outcome train_plainly(const Training& run, Clipping clipping, const TwinEdit& edit) {
  at::set_num_threads(1);
  return Twin(run, clipping, edit).train();
}

}  // namespace shardlight::engine
