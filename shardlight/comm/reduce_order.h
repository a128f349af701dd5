// In which order the gradients of the ranks are added: fp32 addition is not associative, so the
// order is part of the result and every transport keeps it (docs/exchange.md).
//
// Pure: the steps a rank takes are computed from (order, world, rank) alone and are the same on
// every transport that adds in shared memory; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight::comm {

enum class ReduceOrderKind : std::uint8_t {
  kLinear,   // ((sum + g0) + g1) + g2 …, by rank
  kGrouped,  // (sum + G0) + G1 …, each G = (g + g) + g … over `group` consecutive ranks
  kTree,     // sum + T, T a binary tree over the ranks, split at the largest power of two below
};

struct ReduceOrder {
  ReduceOrderKind kind = ReduceOrderKind::kLinear;
  std::int64_t group = 1;  // of kGrouped; the last group may be smaller

  bool operator==(const ReduceOrder&) const = default;
};

std::string text_of(const ReduceOrder& order);

// Buffer 0 is the unit's sum; others are partial sums.
inline constexpr int kSumBuffer = 0;
// The source of a step that adds the rank's own gradient.
inline constexpr int kOwnGradient = -1;

// Waits until rank `after` has done all its steps (or for nobody), then adds `source` to `target`.
// Adding to an empty buffer stores; adding an empty one changes nothing.
struct ReduceStep {
  int source = kOwnGradient;
  int target = kSumBuffer;
  std::int64_t after = kNobody;

  static constexpr std::int64_t kNobody = -1;
  bool operator==(const ReduceStep&) const = default;
};

// In this order. A rank waits only for lower ranks, so no set of ranks can wait in a circle,
// whatever units they are at.
std::vector<ReduceStep> reduce_steps(const ReduceOrder& order, std::int64_t world, Rank rank);

// How many buffers the steps of all ranks use, the sum included.
int reduce_buffers(const ReduceOrder& order, std::int64_t world);

}  // namespace shardlight::comm
