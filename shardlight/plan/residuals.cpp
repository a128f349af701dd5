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

// Rank 0 has the most, so it says what must fit.
Share padding(const Units& units, const layout::Placements& placements,
              const ResidualRequest& request) {
  const auto held = [&](const layout::Placement& placement, std::int64_t bytes) {
    Count elements;
    for (const layout::Unit& unit : units) {
      elements += layout::slice_elements(unit.elements, placement.ways);
    }
    return Bytes(elements.value() * bytes);
  };
  const Share floor =
      model_states(request.parameters, request.bytes, placements, request.ranks).total();
  const Bytes all = held(placements.parameters, request.bytes.parameter) +
                    held(placements.gradients, request.bytes.gradient) +
                    held(placements.optimizer, request.bytes.optimizer);
  return Share(all) - floor;
}

}  // namespace

Residuals residuals(const std::optional<Units>& units, const layout::Placements& placements,
                    const ResidualRequest& request) {
  Residuals lines;
  const bool kept = placements.gradients.sharded() && request.accumulation_steps > 1 &&
                    request.reduce == ReduceSetting::kOnce;
  if (kept) {
    lines.unreduced_gradients = Bytes(request.parameters.value() * request.bytes.gradient);
  }
  if (!placements.parameters.sharded()) lines.gathered_units = Bytes(0);
  if (!placements.gradients.sharded()) lines.buckets = Bytes(0);
  if (!units) return lines;

  const std::int64_t two = two_units(*units).value();
  lines.padding = padding(*units, placements, request);
  if (placements.parameters.sharded()) lines.gathered_units = Bytes(two * request.bytes.parameter);
  if (placements.gradients.sharded()) lines.buckets = Bytes(two * request.bytes.gradient);
  return lines;
}

}  // namespace shardlight::plan
