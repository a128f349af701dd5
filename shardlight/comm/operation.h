// The descriptor that every call of an exchange carries: what is done, for which unit, how many
// bytes, on which lane. Tracing, counting, checking and faults look at nothing else, and it is what
// an error and the table of a stuck job name. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shardlight/base/quantity.h"
#include "shardlight/comm/deadline.h"

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
  std::string lane = {};  // of the thread that makes the call; empty for one that is no lane
  std::optional<Rank> peer = {};          // a broadcast's root, a message's other side
  std::string_view combine = {};          // "sum" or "max", of an all-reduce
  std::optional<Deadline> deadline = {};  // of calls that wait
};

// "gather of h.0", "barrier".
std::string text_of(const Operation& operation);
// With all that ranks must agree on: "all-reduce (sum) of 24 bytes", "broadcast of 8 bytes, rank
// 1".
std::string full_text_of(const Operation& operation);

// While it lives, this thread's calls are those of the lane of that name.
class OnLane {
 public:
  explicit OnLane(std::string name);
  ~OnLane();
  OnLane(const OnLane&) = delete;
  OnLane(OnLane&&) = delete;
  OnLane& operator=(const OnLane&) = delete;
  OnLane& operator=(OnLane&&) = delete;

 private:
  std::string before_;
};
const std::string& lane_of_this_thread();

}  // namespace shardlight::comm
