// RapidCheck generators of parameter tables, units and placements: small enough to check element
// by element, with the degenerate cases (size 0 and 1, more ranks than elements) always in reach.
#pragma once

#include <rapidcheck.h>

#include <vector>

#include "shardlight/layout/slice_table.h"

namespace shardlight::layout {

inline ParameterTable random_table() {
  ParameterTable table;
  const auto count = *rc::gen::inRange(0, 12);
  for (int i = 0; i < count; ++i) {
    const auto elements = *rc::gen::oneOf(rc::gen::element<std::int64_t>(0, 1, 63, 64, 65),
                                          rc::gen::inRange<std::int64_t>(0, 2000));
    const auto block = *rc::gen::inRange(-1, 4);
    const std::string prefix = block < 0 ? "" : "h." + std::to_string(block) + ".";
    ParameterOptions options;
    options.dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16);
    options.trainable = *rc::gen::element(true, true, false);
    RC_ASSERT(table.add(prefix + "p" + std::to_string(i), {elements}, options).has_value());
  }
  return table;
}

inline std::vector<Unit> random_units(const ParameterTable& table) {
  const auto bytes_min = *rc::gen::element<std::int64_t>(0, 1, 1000, 5000, 1 << 20);
  return *build_units(table, {.bytes_min = Bytes(bytes_min)});
}

struct World {
  std::int64_t ranks;
  Placement placement;
};

inline World random_world() {
  const auto ways = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto replicas = *rc::gen::element<std::int64_t>(1, 1, 2, 3);
  return {ways * replicas, Placement{ways}};
}

inline SliceTable random_slices(const std::vector<Unit>& units) {
  const World world = random_world();
  return *SliceTable::create(units, world.placement, world.ranks);
}

}  // namespace shardlight::layout
