#include "shardlight/engine/operator_inputs.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>

namespace shardlight::engine {
namespace {

OperatorTraits read_schema(const at::RecordFunction& function) {
  OperatorTraits traits;
  const auto name = function.operator_name();
  if (!name) return traits;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (!handle) return traits;
  const auto& schema = handle->schema();
  bool writes_any = false;
  for (const auto& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    traits.writes.push_back(alias != nullptr && alias->isWrite());
    writes_any = writes_any || traits.writes.back();
  }
  bool returns_views = !schema.returns().empty();
  for (const auto& value : schema.returns()) {
    returns_views = returns_views && value.alias_info() != nullptr;
  }
  traits.only_views = returns_views && !writes_any;
  return traits;
}

}  // namespace

// A schema's name stays where it is as long as the operator is registered, so its address stands
// for the operator.
const OperatorTraits& traits_of(const at::RecordFunction& function) {
  thread_local std::unordered_map<const char*, OperatorTraits> cache;
  const auto [entry, is_new] = cache.try_emplace(function.name());
  if (is_new) entry->second = read_schema(function);
  return entry->second;
}

}  // namespace shardlight::engine
