// Where the copies of a state live. A state (parameters, gradients, optimizer states) is cut into
// `ways` parts, one for each rank of a sharding group; the ranks form ranks / ways such groups,
// which are replicas of each other. Replicated is ways = 1, fully sharded is ways = ranks.
//
// A ZeRO stage is nothing but a row of three placements (docs/architecture.md).
// Pure; any thread.
#pragma once

#include <cstdint>

#include "shardlight/base/result.h"

namespace shardlight::layout {

inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

enum class Residency { kDevice, kHost, kNvme };

struct Placement {
  std::int64_t ways = 1;  // divides the number of ranks
  Residency residency = Residency::kDevice;

  bool sharded() const { return ways > 1; }
  bool operator==(const Placement&) const = default;
};

struct Placements {
  Placement parameters;
  Placement gradients;
  Placement optimizer;

  bool operator==(const Placements&) const = default;
};

inline constexpr int kStages = 4;  // ZeRO's 0, 1, 2, 3

// The preset: 1 shards optimizer states, 2 gradients too, 3 parameters too, each over all ranks.
// Errors (user): `stage` outside 0 to 3, `ranks` outside 1 to kMaxRanks.
Result<Placements> placements_of_stage(std::int64_t stage, std::int64_t ranks);

// All three sharded within groups of `group` consecutive ranks, replicated across the groups.
// Errors (user): `ranks` as above, `group` not a divisor of `ranks`.
Result<Placements> placements_of_hybrid(std::int64_t group, std::int64_t ranks);

// ranks within 1 to kMaxRanks and divided by placement.ways, or a user error.
Status check_placement(const Placement& placement, std::int64_t ranks);

}  // namespace shardlight::layout
