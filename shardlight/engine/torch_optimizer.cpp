#include "shardlight/engine/torch_optimizer.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "shardlight/engine/configuration.h"
#include "shardlight/engine/steps_together.h"

namespace shardlight::engine {
namespace {

bool known_elementwise(std::type_index type) {
  const std::array known = {
      std::type_index(typeid(torch::optim::SGD)), std::type_index(typeid(torch::optim::Adam)),
      std::type_index(typeid(torch::optim::AdamW)), std::type_index(typeid(torch::optim::Adagrad)),
      std::type_index(typeid(torch::optim::RMSprop))};
  return std::ranges::find(known, type) != known.end();
}

// What the class throws, as an error by its name.
template <class F>
Status caught(const std::string& name, const F& f) {
  std::string what;
  try {
    f();
    return {};
  } catch (const c10::Error& error) {
    what = error.what_without_backtrace();
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
    what = "something that is no std::exception";
  }
  return user_error("optimizer", name,
                    "one that needs no closure and whose steps do not fail; it said: " + what);
}

// One instance over all segments, which steps them all together, so that what it counts by itself
// is counted as in a plain process.
class SegmentsOfTorchClass final : public StepsTogether {
 public:
  SegmentsOfTorchClass(TorchClass torch_class, std::span<const Segment> segments)
      : StepsTogether(torch_class.name, segments), torch_class_(std::move(torch_class)) {}

  Status construct() {
    if (segments().empty()) return {};
    std::vector<StepSettings> settings;  // by group
    std::vector<std::vector<at::Tensor>> members;
    for (const Segment& segment : segments()) {
      const auto group = std::ranges::find(settings, segment.settings);
      const auto index = static_cast<std::size_t>(group - settings.begin());
      if (group == settings.end()) {
        settings.push_back(segment.settings);
        members.emplace_back();
      }
      members[index].push_back(segment.value);
    }
    const TorchClass::Groups groups(members.begin(), members.end());
    return caught(name(), [&] {
      optimizer_ = torch_class_.construct(groups);
      // Here, since groups that have options of torch's own mix them with the class's.
      for (std::size_t i = 0; i < settings.size(); ++i) {
        auto& options = optimizer_->param_groups()[i].options();
        if (torch_class_.set_lr) torch_class_.set_lr(options, settings[i].lr);
        if (torch_class_.set_weight_decay) {
          torch_class_.set_weight_decay(options, settings[i].weight_decay);
        }
        lrs_.push_back(settings[i].lr);
      }
    });
  }

 private:
  Status step_all(double lr_factor, std::optional<double> /*divisor*/) override {
    if (!optimizer_) return {};
    return caught(name(), [&] {
      if (lr_factor != 1) multiply_lr(lr_factor);
      optimizer_->step();
      if (lr_factor != 1) multiply_lr(1);
    });
  }

  bool keeps_gradient(const Segment& segment) const override {
    return segment.gradient.use_count() > 1 || segment.gradient.storage().use_count() > 1;
  }

  void multiply_lr(double factor) {
    if (!torch_class_.set_lr) return;
    for (std::size_t i = 0; i < lrs_.size(); ++i) {
      torch_class_.set_lr(optimizer_->param_groups()[i].options(), lrs_[i] * factor);
    }
  }

  TorchClass torch_class_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  // none without segments
  std::vector<double> lrs_;                             // by group
};

class OptimizerOfTorch final : public OptimizerClass {
 public:
  explicit OptimizerOfTorch(TorchClass torch_class) : torch_class_(std::move(torch_class)) {}

  Result<std::unique_ptr<SegmentOptimizer>> over(std::span<const Segment> segments) const override {
    auto optimizer = std::make_unique<SegmentsOfTorchClass>(torch_class_, segments);
    SHARDLIGHT_TRY_STATUS(optimizer->construct());
    return optimizer;
  }

 private:
  TorchClass torch_class_;
};

}  // namespace

std::string option::text_of(double value) { return exact_text(value); }

TorchOptimizer torch_optimizer(TorchClass torch_class, const TorchChoices& choices) {
  return {.name = torch_class.name,
          .settings = torch_class.settings,
          .lr = torch_class.lr,
          .weight_decay = torch_class.weight_decay,
          .elementwise = choices.elementwise || known_elementwise(torch_class.type),
          .optimizer_class = std::make_shared<OptimizerOfTorch>(std::move(torch_class))};
}

}  // namespace shardlight::engine
