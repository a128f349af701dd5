#include "shardlight/engine/configuration.h"

#include <array>
#include <cstdio>
#include <span>
#include <variant>

#include "shardlight/engine/agreement.h"

namespace shardlight::engine {
namespace {

std::string text_of(double value) { return exact_text(value); }

std::string text_of(bool value) { return value ? "true" : "false"; }

std::string text_of(const std::optional<double>& value) {
  return value ? text_of(*value) : std::string("none");
}

struct OptimizerText {
  static std::string adam(const char* name, double lr, double beta1, double beta2, double epsilon,
                          double weight_decay) {
    return std::string(name) + " lr " + text_of(lr) + " betas " + text_of(beta1) + " " +
           text_of(beta2) + " epsilon " + text_of(epsilon) + " weight_decay " +
           text_of(weight_decay);
  }
  std::string operator()(const AdamW& x) const {
    return adam("AdamW", x.lr, x.beta1, x.beta2, x.epsilon, x.weight_decay);
  }
  std::string operator()(const Adam& x) const {
    return adam("Adam", x.lr, x.beta1, x.beta2, x.epsilon, x.weight_decay);
  }
  std::string operator()(const Lion& x) const {
    return adam("Lion", x.lr, x.beta1, x.beta2, 0, x.weight_decay);
  }
  std::string operator()(const SGD& x) const {
    return "SGD lr " + text_of(x.lr) + " momentum " + text_of(x.momentum) + " weight_decay " +
           text_of(x.weight_decay);
  }
  std::string operator()(const TorchOptimizer& x) const { return x.name + x.settings; }
};

std::string text_of(const std::vector<ParameterGroup>& groups) {
  std::string text;
  for (const ParameterGroup& group : groups) {
    for (const std::string& pattern : group.patterns) text += pattern + ",";
    text += " lr " + text_of(group.lr) + " weight_decay " + text_of(group.weight_decay) + "; ";
  }
  return text;
}

std::string text_of(const layout::ParameterTable& table) {
  std::string text;
  for (layout::ParameterIndex i = 0; i < table.size(); ++i) {
    const layout::Parameter& parameter = table[i];
    text +=
        parameter.names.front() + " " + std::string(layout::torch_name(parameter.options.dtype));
    for (const std::int64_t size : parameter.shape) text += " " + std::to_string(size);
    text += parameter.options.trainable ? "; " : " frozen; ";
  }
  return text;
}

std::string text_of(const NamedTensors& buffers) {
  std::string text;
  for (const auto& [name, buffer] : buffers) {
    text += name + " " + (buffer.defined() ? buffer.toString() + c10::str(buffer.sizes()) : "none");
    text += "; ";
  }
  return text;
}

}  // namespace

std::string exact_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

Configuration configuration_of(const Optimizer& optimizer, const Options& options,
                               const ModelLayout& layout, const NamedTensors& buffers) {
  const auto ways = [](const layout::Placement& placement) {
    return std::to_string(placement.ways);
  };
  return {
      {"parameters", text_of(layout.table)},
      {"buffers", text_of(buffers)},
      {"optimizer", std::visit(OptimizerText(), optimizer)},
      {"groups", text_of(options.groups)},
      {"placements", ways(layout.placements.parameters) + " " + ways(layout.placements.gradients) +
                         " " + ways(layout.placements.optimizer)},
      {"shared_units", text_of(options.shared_units)},
      {"accumulation", std::to_string(options.accumulation)},
      {"reduce", std::string(plan::name_of(layout.reduce))},
      {"order", comm::text_of(layout.order)},
      {"grad_dtype", std::string(plan::name_of(options.grad_dtype))},
      {"reproducible", text_of(options.reproducible)},
      {"loss_scaling", text_of(options.loss_scaling.initial) + " " +
                           std::to_string(options.loss_scaling.growth_interval)},
      {"clip_norm", text_of(options.clip_norm)},
      {"unit_bytes", std::to_string(options.unit_bytes.value())},
      {"synchronize_buffers", text_of(options.synchronize_buffers)},
      {"sanity_steps", std::to_string(options.sanity_steps)},
  };
}

Status compare_configuration(comm::Transport& transport, const Configuration& mine,
                             comm::Deadline deadline) {
  std::vector<std::span<const std::byte>> texts;
  for (const auto& [field, text] : mine) texts.push_back(std::as_bytes(std::span(text)));
  SHARDLIGHT_TRY(const auto differs, first_difference(transport, texts, deadline));
  if (!differs) return {};
  const auto& [field, text] = mine[*differs];
  return user_error(field, text, "the same on all ranks; another rank has others");
}

}  // namespace shardlight::engine
