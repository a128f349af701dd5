#include "shardlight/comm/operation.h"

#include <array>

namespace shardlight::comm {

std::string_view name_of(OperationKind kind) {
  constexpr std::array<std::string_view, kOperationKinds> kNames = {
      "none",    "connect",    "publish",   "gather",  "reduce", "reduced", "gather-reduced",
      "release", "all-reduce", "broadcast", "barrier", "send",   "receive"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string text_of(const Operation& operation) {
  std::string text(name_of(operation.kind));
  if (!operation.unit.empty()) text += " of " + operation.unit;
  return text;
}

}  // namespace shardlight::comm
