#include "shardlight/engine/model_change.h"

#include <algorithm>
#include <unordered_map>

#include "shardlight/engine/optimizer_states.h"

namespace shardlight::engine {
namespace {

using Indices = std::unordered_map<const c10::TensorImpl*, layout::ParameterIndex>;

Indices indices_of(const ManagedTensors& parameters) {
  Indices indices;
  for (const auto& parameter : parameters) {
    indices.emplace(parameter->tensor.unsafeGetTensorImpl(), parameter->index);
  }
  return indices;
}

Status check_memory(const ManagedTensors& parameters, const NamedTensors& named) {
  const Indices known = indices_of(parameters);
  for (const auto& [name, tensor] : named) {
    const auto found = known.find(tensor.unsafeGetTensorImpl());
    if (found == known.end() || intact(*parameters[found->second])) continue;
    return user_error("parameter " + name, "with another memory, shape or dtype than before",
                      "one that is changed in place, or another tensor");
  }
  return {};
}

bool same(const layout::Parameter& a, const layout::Parameter& b) {
  return a.names == b.names && a.options.trainable == b.options.trainable;
}

bool parameters_changed(const layout::ParameterTable& before, const layout::ParameterTable& after,
                        const Renumbering& renumbering) {
  if (before.size() != after.size()) return true;
  for (layout::ParameterIndex index = 0; index < before.size(); ++index) {
    if (renumbering[index] != index || !same(before[index], after[index])) return true;
  }
  return false;
}

NamedTensors new_among(const NamedTensors& buffers, const NamedTensors& known) {
  NamedTensors found;
  for (const auto& named : buffers) {
    const bool is_known = std::ranges::any_of(
        known, [&](const auto& other) { return other.second.is_same(named.second); });
    if (!is_known) found.push_back(named);
  }
  return found;
}

}  // namespace

Result<NamedTensors> buffers_with_elements(const NamedTensors& buffers) {
  NamedTensors found;
  for (const auto& [name, tensor] : buffers) {
    if (!tensor.defined() || tensor.numel() == 0) continue;
    if (!tensor.device().is_cpu() || !tensor.is_non_overlapping_and_dense()) {
      return user_error("buffer " + name, tensor.toString(), "a dense tensor on the CPU");
    }
    found.emplace_back(name, tensor);
  }
  return found;
}

Renumbering ModelChange::trained_on(const ModelLayout& before) const {
  Renumbering trained = renumbering;
  for (layout::ParameterIndex index = 0; index < trained.size(); ++index) {
    auto& after = trained[index];
    if (!after || !before.table[index].options.trainable ||
        !layout.table[*after].options.trainable) {
      after.reset();
    }
  }
  return trained;
}

Renumbering ModelChange::mastered(const ModelLayout& before) const {
  Renumbering mastered = trained_on(before);
  for (layout::ParameterIndex index = 0; index < mastered.size(); ++index) {
    if (before.table[index].options.dtype == layout::DType::kFloat32) mastered[index].reset();
  }
  return mastered;
}

Result<ModelChange> change_of(const ModelBefore& before, const NamedTensors& parameters,
                              const NamedTensors& buffers, const Options& options) {
  SHARDLIGHT_TRY_STATUS(check_memory(*before.parameters, parameters));
  SHARDLIGHT_TRY(auto dense, buffers_with_elements(buffers));
  SHARDLIGHT_TRY(auto adopted, adopt(parameters, before.keeper));
  SHARDLIGHT_TRY_STATUS(check_patterns(adopted.table, options.groups));
  SHARDLIGHT_TRY(auto layout, lay_out(std::move(adopted.table), options, before.layout->rank,
                                      before.layout->world));
  Renumbering renumbering;
  const Indices now = indices_of(adopted.parameters);
  for (const auto& parameter : *before.parameters) {
    const auto found = now.find(parameter->tensor.unsafeGetTensorImpl());
    renumbering.push_back(found == now.end() ? std::nullopt : std::optional(found->second));
  }
  const bool changed = parameters_changed(before.layout->table, layout.table, renumbering);
  auto new_buffers = new_among(dense, *before.buffers);
  return ModelChange{.parameters = std::move(adopted.parameters),
                     .layout = std::move(layout),
                     .buffers = std::move(dense),
                     .new_buffers = std::move(new_buffers),
                     .renumbering = std::move(renumbering),
                     .parameters_changed = changed};
}

Configuration configuration_of(const ModelChange& change, const Optimizer& optimizer,
                               const Options& options, const NamedTensors& buffers) {
  Configuration configuration = configuration_of(optimizer, options, change.layout, buffers);
  std::string stay;
  for (const auto& after : change.renumbering) {
    stay += after ? change.layout.table[*after].name() + "; " : "gone; ";
  }
  std::string new_ones;
  for (const auto& [name, buffer] : change.new_buffers) new_ones += name + "; ";
  configuration.push_back({"parameters that stay", std::move(stay)});
  configuration.push_back({"new buffers", std::move(new_ones)});
  return configuration;
}

}  // namespace shardlight::engine
