#include "shardlight/plan/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace shardlight::plan {
namespace {

// Bytes of one state over all ranks, so that dividing by `ranks` gives a rank's share.
WideInteger over_all_ranks(std::int64_t bytes, const layout::Placement& placement,
                           std::int64_t ranks) {
  return static_cast<WideInteger>(bytes) * (ranks / placement.ways);
}

}  // namespace

Status check_parameters(Count parameters) {
  if (parameters >= Count(1) && parameters <= Count(kMaxParameters)) return {};
  return user_error("parameters", fmt::to_string(parameters.value()),
                    fmt::format("a whole number from 1 to {}", kMaxParameters));
}

ModelStates model_states(Count parameters, StateBytes bytes, const layout::Placements& placements,
                         std::int64_t ranks) {
  const auto share = [&](std::int64_t each, const layout::Placement& placement) {
    return Share(over_all_ranks(each, placement, ranks) * parameters.value(), ranks);
  };
  return {.parameters = share(bytes.parameter, placements.parameters),
          .gradients = share(bytes.gradient, placements.gradients),
          .optimizer = share(bytes.optimizer, placements.optimizer)};
}

double compression_ratio(Count parameters, StateBytes bytes, const ModelStates& states) {
  if (parameters == Count(0)) return 1;
  return static_cast<double>(parameters.value()) * static_cast<double>(bytes.total()) /
         states.total().to_double();
}

Count largest_model(Bytes memory, StateBytes bytes, const layout::Placements& placements,
                    std::int64_t ranks) {
  const WideInteger cost = over_all_ranks(bytes.parameter, placements.parameters, ranks) +
                           over_all_ranks(bytes.gradient, placements.gradients, ranks) +
                           over_all_ranks(bytes.optimizer, placements.optimizer, ranks);
  const WideInteger fits = static_cast<WideInteger>(memory.value()) * ranks / cost;
  return Count(static_cast<std::int64_t>(
      std::min<WideInteger>(fits, std::numeric_limits<std::int64_t>::max())));
}

}  // namespace shardlight::plan
