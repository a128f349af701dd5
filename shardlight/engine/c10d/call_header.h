// What every collective call of this transport begins with: each rank tells all others which call
// it makes, in a header of one size whatever the call is. So a rank that makes another call is seen
// by all before any data moves. Values; any thread. Internal to engine/c10d.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::engine {

struct CallHeader {
  // More of them follow in a message of their own.
  static constexpr std::size_t kNumbersInline = 64;

  // The same on all ranks, of which the history says whether it is so.
  std::uint64_t history = 0;  // a hash of all calls of the rank up to this one, in order
  std::int64_t number = 0;    // of the call, from 1 on
  std::int64_t version = 0;   // of a gather; the round of a sum; a connect's fingerprint of units
  std::int64_t bytes = 0;     // of calls without a unit
  std::uint32_t unit = 0;     // index + 1, or 0
  std::int32_t root = -1;
  std::uint8_t kind = 0;  // comm::OperationKind
  std::uint8_t combine = 0;
  std::uint8_t fresh = 0;

  // Of the rank alone.
  std::uint8_t dtype = 0;      // of its gradient
  std::uint32_t numbers = 0;   // how many it gives besides: parts of its gradient, values
  std::int64_t published = 0;  // the version of its slice of the unit
  std::array<std::int64_t, kNumbersInline> number_of{};
};

// Sets the history, from that of the calls before.
void append_to_history(CallHeader& header, std::uint64_t before);

// "gather of h.1, version 3", "all-reduce (sum) of 24 bytes".
std::string text_of(const CallHeader& header, const std::vector<comm::UnitSpec>& units);

// "rank 1 calls gather of h.1, version 2, as call 17; this rank calls …"; empty if all ranks make
// the same call.
std::string difference(const std::vector<CallHeader>& headers, Rank own,
                       const std::vector<comm::UnitSpec>& units);

}  // namespace shardlight::engine
