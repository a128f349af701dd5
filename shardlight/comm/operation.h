// The descriptor that every call of an exchange carries: what is done, for which unit, how many
// bytes. Tracing, counting, checking and faults look at nothing else, and it is what an error and
// the table of a stuck job name. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "shardlight/base/quantity.h"

namespace shardlight::comm {

enum class OperationKind : std::uint8_t {
  kNone,  // between two calls
  kConnect,
  kPublish,
  kGather,
  kReduce,
  kReduced,
  kGatherReduced,
  kRelease,
  kAllReduce,
  kBroadcast,
  kBarrier,
  kSend,
  kReceive,
};

inline constexpr std::size_t kOperationKinds = 13;

std::string_view name_of(OperationKind kind);

struct Operation {
  OperationKind kind = OperationKind::kNone;
  std::string unit = {};  // empty where none is concerned
  Bytes bytes = {};       // that the caller hands over or receives
};

// "gather of h.0", "barrier".
std::string text_of(const Operation& operation);

}  // namespace shardlight::comm
