// Mistakes of a transport's caller that units and world alone show, by field and in the same words
// on every transport, and how an all-reduce combines. What depends on a call's turn (versions,
// rounds) is the transport's. Pure; any thread. For transports, comm's and engine/c10d's.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

Status check_unit(const std::vector<UnitSpec>& units, UnitId unit);
// That there is such a unit, and that it has a sum.
Status check_reduces(const std::vector<UnitSpec>& units, UnitId unit);

// `field`: the argument's name in transport.h.
Status check_rank(const char* field, Rank rank, std::int64_t world);
// The other side of a message of rank `own`.
Status check_peer(const char* field, Rank peer, Rank own, std::int64_t world);

Status check_target(const UnitSpec& unit, std::span<const std::byte> target);  // of gather
Status check_sum_target(const UnitSpec& unit, const SumSpan& target);          // of gather_reduced

// `released`: whether this rank has released the sum of that round.
Status check_not_released(std::int64_t round, bool released);

Status check_all_reduce(std::span<const double> values);
// result[i] becomes result[i] + more[i], or the greater of them and NaN where either is, for i
// below both sizes. To be called by rank, ascending from rank 0's values.
void combine_into(std::span<double> result, std::span<const double> more, Combine combine);

std::string_view name_of(Combine combine);  // "sum", "max"

}  // namespace shardlight::comm
