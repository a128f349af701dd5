// Classes of torch.optim as users write them, for tests: one that steps each element by itself and
// keeps states of two kinds, and ones that the engine cannot step parts of parameters with, each
// for another reason.
#pragma once

#include <ATen/Functions.h>
#include <torch/optim/optimizer.h>

namespace shardlight::engine {

struct OwnOptions : torch::optim::OptimizerCloneableOptions<OwnOptions> {
  explicit OwnOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, weight_decay) = 0;
};

// What they have in common: calls `change(parameter, gradient, lr)` for all that have a gradient.
class OwnOptimizer : public torch::optim::Optimizer {
 public:
  OwnOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
               const OwnOptions& options)
      : Optimizer(groups, std::make_unique<OwnOptions>(options)) {}

  at::Tensor step(LossClosure /*closure*/) override {
    const at::NoGradGuard no_grad;
    ++steps_;
    for (auto& group : param_groups()) {
      const auto& options = dynamic_cast<OwnOptions&>(group.options());
      for (const at::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        at::Tensor gradient = parameter.grad();
        if (options.weight_decay() != 0) gradient = gradient.add(parameter, options.weight_decay());
        change(parameter, gradient, options.lr());
      }
    }
    return {};
  }

 protected:
  virtual void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) = 0;

  std::int64_t steps_ = 0;  // of the whole model
};

struct AverageState : torch::optim::OptimizerCloneableParamState<AverageState> {
  at::Tensor average;
};

// The sign of a running mean, smaller from step to step of the model.
class SignOfMean final : public OwnOptimizer {
 public:
  using OwnOptimizer::OwnOptimizer;

 private:
  void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) override {
    auto& state = state_[parameter.unsafeGetTensorImpl()];
    if (!state) {
      auto first = std::make_unique<AverageState>();
      first->average = gradient.clone();
      state = std::move(first);
    }
    at::Tensor& average = dynamic_cast<AverageState&>(*state).average;
    average = average * 0.9 + gradient * 0.1;  // in other memory each time
    parameter.add_(average.sign() + gradient, -lr / static_cast<double>(steps_));
  }
};

// As LAMB and LARS have it.
class TrustRatio final : public OwnOptimizer {
 public:
  using OwnOptimizer::OwnOptimizer;

 private:
  void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) override {
    const double ratio = (parameter.norm() / (gradient.norm() + 1)).item<double>();
    parameter.add_(gradient, -lr * ratio);
  }
};

// As Adafactor and Muon do something of their own for matrices alone.
class RowsOfMatrices final : public OwnOptimizer {
 public:
  using OwnOptimizer::OwnOptimizer;

 private:
  void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) override {
    parameter.add_(gradient.dim() < 2 ? gradient : gradient / gradient.abs().mean(-1, true), -lr);
  }
};

class Noise final : public OwnOptimizer {
 public:
  using OwnOptimizer::OwnOptimizer;

 private:
  void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) override {
    parameter.add_(gradient + at::randn_like(gradient), -lr);
  }
};

class KeepsGradients final : public OwnOptimizer {
 public:
  using OwnOptimizer::OwnOptimizer;

 private:
  void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) override {
    kept_.push_back(gradient.detach());
    parameter.add_(gradient, -lr);
  }
  std::vector<at::Tensor> kept_;
};

class NewValues final : public OwnOptimizer {
 public:
  using OwnOptimizer::OwnOptimizer;

 private:
  void change(const at::Tensor& parameter, const at::Tensor& gradient, double lr) override {
    parameter.set_data(parameter.detach() - gradient * lr);
  }
};

class NeedsAClosure final : public torch::optim::Optimizer {
 public:
  NeedsAClosure(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const OwnOptions& options)
      : Optimizer(groups, std::make_unique<OwnOptions>(options)) {}
  at::Tensor step(LossClosure closure) override { return closure(); }
};

// Options without anything that groups or schedules set.
struct BareOptions : torch::optim::OptimizerCloneableOptions<BareOptions> {};

class BySign final : public torch::optim::Optimizer {
 public:
  BySign(const std::vector<torch::optim::OptimizerParamGroup>& groups, const BareOptions& options)
      : Optimizer(groups, std::make_unique<BareOptions>(options)) {}
  at::Tensor step(LossClosure /*closure*/) override {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : param_groups().front().params()) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad().sign(), 0.01);
    }
    return {};
  }
};

}  // namespace shardlight::engine
