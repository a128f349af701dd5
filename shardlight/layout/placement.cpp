#include "shardlight/layout/placement.h"

#include <fmt/format.h>

namespace shardlight::layout {
namespace {

Status check_ranks(std::int64_t ranks) {
  if (ranks >= 1 && ranks <= kMaxRanks) return {};
  return user_error("ranks", fmt::to_string(ranks),
                    fmt::format("a whole number from 1 to {}", kMaxRanks));
}

Status check_ways(const char* field, std::int64_t ways, std::int64_t ranks) {
  if (ways >= 1 && ranks % ways == 0) return {};
  return user_error(field, fmt::to_string(ways),
                    fmt::format("a divisor of the number of ranks ({})", ranks));
}

}  // namespace

Result<Placements> placements_of_stage(std::int64_t stage, std::int64_t ranks) {
  SHARDLIGHT_TRY_STATUS(check_ranks(ranks));
  if (stage < 0 || stage >= kStages) {
    return user_error("stage", fmt::to_string(stage), "0, 1, 2 or 3");
  }
  const auto from = [&](std::int64_t first) { return Placement{stage >= first ? ranks : 1}; };
  return Placements{.parameters = from(3), .gradients = from(2), .optimizer = from(1)};
}

Result<Placements> placements_of_hybrid(std::int64_t group, std::int64_t ranks) {
  SHARDLIGHT_TRY_STATUS(check_ranks(ranks));
  SHARDLIGHT_TRY_STATUS(check_ways("group", group, ranks));
  return Placements{{group}, {group}, {group}};
}

Status check_placement(const Placement& placement, std::int64_t ranks) {
  SHARDLIGHT_TRY_STATUS(check_ranks(ranks));
  return check_ways("placement.ways", placement.ways, ranks);
}

}  // namespace shardlight::layout
