// Lets the engine step with a class of torch::optim, or with one of the user's own:
//   shardlight::Engine engine(model, shardlight::torch_optimizer<torch::optim::Adagrad>(
//                                        torch::optim::AdagradOptions(0.01)), {.stage = 3});
// It must step each element by itself, as a rank steps its part of a parameter. Torch's SGD, Adam,
// AdamW, Adagrad and RMSprop do; others are tried out when the engine is made, and refused by name
// if whole tensors come out otherwise than tensors in pieces. docs/engine.md. Any thread.
#pragma once

#include <torch/optim/optimizer.h>

#include <concepts>
#include <tuple>
#include <typeindex>

#include "shardlight/engine/options.h"

namespace shardlight::engine {

struct TorchChoices {
  // The user's word for a class that is not tried out: each element is stepped by itself, from its
  // own value, gradient and state.
  bool elementwise = false;
};

// A class and its options, their types forgotten.
struct TorchClass {
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using Set = std::function<void(torch::optim::OptimizerOptions&, double)>;

  std::type_index type;
  std::string name;
  std::string settings;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Groups&)> construct;
  std::optional<double> lr = std::nullopt, weight_decay = std::nullopt;
  Set set_lr = {}, set_weight_decay = {};
};
TorchOptimizer torch_optimizer(TorchClass torch_class, const TorchChoices& choices);

namespace option {  // as text, all bits of them

std::string text_of(double value);
inline std::string text_of(const std::tuple<double, double>& value) {
  return text_of(std::get<0>(value)) + " " + text_of(std::get<1>(value));
}

// Of those that torch's own classes have; what else an own class has is not compared.
template <class Options>
std::string text_of_all(const Options& x) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    text += " " + std::string(name) + " " + text_of(value);
  };
  if constexpr (requires { x.lr(); }) add("lr", x.lr());
  if constexpr (requires { x.lr_decay(); }) add("lr_decay", x.lr_decay());
  if constexpr (requires { x.weight_decay(); }) add("weight_decay", x.weight_decay());
  if constexpr (requires { x.momentum(); }) add("momentum", x.momentum());
  if constexpr (requires { x.dampening(); }) add("dampening", x.dampening());
  if constexpr (requires { x.nesterov(); }) add("nesterov", x.nesterov());
  if constexpr (requires { x.betas(); }) add("betas", x.betas());
  if constexpr (requires { x.alpha(); }) add("alpha", x.alpha());
  if constexpr (requires { x.eps(); }) add("eps", x.eps());
  if constexpr (requires { x.amsgrad(); }) add("amsgrad", x.amsgrad());
  if constexpr (requires { x.centered(); }) add("centered", x.centered());
  if constexpr (requires { x.initial_accumulator_value(); }) {
    add("initial_accumulator_value", x.initial_accumulator_value());
  }
  return text;
}

}  // namespace option

// Of lr and weight_decay the class may have either, both or none as TORCH_ARG: a group or a
// schedule that sets one it has not is an error of the engine. Its step() finds the mean gradient
// in .grad, undefined for parameters that were not used, needs no closure, changes values in place,
// and keeps no gradient but by clone().
template <class Class, class Options>
TorchOptimizer torch_optimizer(const Options& options, const TorchChoices& choices = {}) {
  static_assert(std::derived_from<Class, torch::optim::Optimizer>);
  static_assert(std::derived_from<Options, torch::optim::OptimizerOptions>);
  static_assert(std::constructible_from<Class, const TorchClass::Groups&, const Options&>,
                "it needs a constructor from groups and options, as torch's own classes have");
  TorchClass torch_class{.type = typeid(Class),
                         .name = c10::demangle_type<Class>(),
                         .settings = option::text_of_all(options),
                         .construct = [options](const TorchClass::Groups& groups) {
                           return std::make_unique<Class>(groups, options);
                         }};
  if constexpr (requires(Options x) { x.lr(x.lr()); }) {
    torch_class.lr = options.lr();
    torch_class.set_lr = [](torch::optim::OptimizerOptions& of_group, double lr) {
      dynamic_cast<Options&>(of_group).lr(lr);
    };
  }
  if constexpr (requires(Options x) { x.weight_decay(x.weight_decay()); }) {
    torch_class.weight_decay = options.weight_decay();
    torch_class.set_weight_decay = [](torch::optim::OptimizerOptions& of_group, double value) {
      dynamic_cast<Options&>(of_group).weight_decay(value);
    };
  }
  return torch_optimizer(std::move(torch_class), choices);
}

}  // namespace shardlight::engine

namespace shardlight {

using engine::torch_optimizer;

}  // namespace shardlight
