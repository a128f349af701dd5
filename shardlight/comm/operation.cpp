#include "shardlight/comm/operation.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace shardlight::comm {
namespace {

std::string& this_threads_lane() {
  thread_local std::string name;
  return name;
}

}  // namespace

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

std::string full_text_of(const Operation& operation) {
  std::string text(name_of(operation.kind));
  if (!operation.combine.empty()) text += fmt::format(" ({})", operation.combine);
  if (!operation.unit.empty()) text += " of " + operation.unit;
  if (operation.bytes > Bytes(0)) {
    text +=
        fmt::format("{} {} bytes", operation.unit.empty() ? " of" : ",", operation.bytes.value());
  }
  if (operation.peer) text += fmt::format(", rank {}", operation.peer->value());
  return text;
}

OnLane::OnLane(std::string name) : before_(std::exchange(this_threads_lane(), std::move(name))) {}

OnLane::~OnLane() { this_threads_lane() = std::move(before_); }

const std::string& lane_of_this_thread() { return this_threads_lane(); }

}  // namespace shardlight::comm
