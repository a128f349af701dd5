#include "shardlight/plan/residuals.h"

#include <algorithm>

#include "shardlight/plan/ledger.h"

namespace shardlight::plan {
namespace {

using Units = std::vector<layout::Unit>;

// The largest sum of two neighbours; of a single unit, that unit.
Count two_units(const Units& units) {
  Count largest;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Count next = i + 1 < units.size() ? units[i + 1].elements : Count(0);
    largest = std::max(largest, units[i].elements + next);
  }
  return largest;
}

Result<Bytes> padding(const Units& units, const layout::Placements& placements,
                      const ResidualRequest& request) {
  const auto held = [&](const layout::Placement& placement, std::int64_t bytes) -> Result<Bytes> {
    SHARDLIGHT_TRY(const auto slices, layout::SliceTable::create(units, placement, request.ranks));
    return Bytes(slices.elements_of(Rank(0)).value() * bytes);
  };
  SHARDLIGHT_TRY(const Bytes parameters, held(placements.parameters, request.bytes.parameter));
  SHARDLIGHT_TRY(const Bytes gradients, held(placements.gradients, request.bytes.gradient));
  SHARDLIGHT_TRY(const Bytes optimizer, held(placements.optimizer, request.bytes.optimizer));
  const Share floor =
      model_states(request.parameters, request.bytes, placements, request.ranks).total();
  return parameters + gradients + optimizer - floor.floor();
}

}  // namespace

Result<Residuals> residuals(const std::optional<Units>& units, const layout::Placements& placements,
                            const ResidualRequest& request) {
  Residuals lines;
  const bool kept = placements.gradients.sharded() && request.micro_steps > 1 &&
                    request.reduce == ReduceSetting::kOnce;
  if (kept) {
    lines.unreduced_gradients = Bytes(request.parameters.value() * request.bytes.gradient);
  }
  if (!placements.parameters.sharded()) lines.gathered_units = Bytes(0);
  if (!placements.gradients.sharded()) lines.buckets = Bytes(0);
  if (!units) return lines;

  const std::int64_t two = two_units(*units).value();
  SHARDLIGHT_TRY(lines.padding, padding(*units, placements, request));
  if (placements.parameters.sharded()) lines.gathered_units = Bytes(two * request.bytes.parameter);
  if (placements.gradients.sharded()) lines.buckets = Bytes(two * request.bytes.gradient);
  return lines;
}

}  // namespace shardlight::plan
