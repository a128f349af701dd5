#include "shardlight/layout/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "shardlight/base/arithmetic.h"

namespace shardlight::layout {
namespace {

using Kind = std::pair<DType, bool>;

// A block that is in several units, as of what is frozen in it and what is not, names the first.
std::string unit_name(const Parameter& parameter, std::set<std::string, std::less<>>& taken) {
  const std::string_view block = block_of(parameter.name());
  const bool by_block = !block.empty() && !taken.contains(block);
  return *taken.emplace(by_block ? block : std::string_view(parameter.name())).first;
}

void append(Unit& unit, ParameterIndex index, Count elements) {
  unit.parameters.push_back({index, unit.elements, elements});
  unit.used += elements;
  unit.elements += Count(round_up(elements.value(), kGrainElements));
}

bool full(const Unit& unit, const UnitOptions& options) {
  const Bytes each = options.bytes_per_element.value_or(bytes_per_element(unit.dtype));
  return each * unit.elements.value() >= options.bytes_min;
}

// Whether a parameter of `block` may not join a unit whose last parameter is of `last_block`.
bool at_boundary(std::string_view last_block, std::string_view block) {
  return block.empty() || block != last_block;
}

// Folds units that stayed below the minimum into the unit of their kind before them.
void merge_tails(std::vector<Unit>& units, const UnitOptions& options) {
  std::map<Kind, std::vector<UnitIndex>> of_kind;
  for (UnitIndex i = 0; i < units.size(); ++i) {
    of_kind[{units[i].dtype, units[i].trainable}].push_back(i);
  }
  for (const auto& [kind, indices] : of_kind) {
    if (indices.size() < 2 || full(units[indices.back()], options)) continue;
    Unit& last = units[indices.back()];
    Unit& target = units[indices[indices.size() - 2]];
    for (const PlacedParameter& placed : last.parameters) {
      append(target, placed.parameter, placed.elements);
    }
    last.parameters.clear();
  }
  std::erase_if(units, [](const Unit& unit) { return unit.parameters.empty(); });
}

}  // namespace

Result<std::vector<Unit>> build_units(const ParameterTable& table, const UnitOptions& options) {
  if (options.bytes_min < Bytes(0)) {
    return user_error("unit_bytes", fmt::to_string(options.bytes_min.value()), "0 bytes or more");
  }
  std::vector<Unit> units;
  std::map<Kind, UnitIndex> open;  // the unit that a parameter of this kind would join
  std::set<std::string, std::less<>> names;
  for (ParameterIndex i = 0; i < table.size(); ++i) {
    const Parameter& parameter = table[i];
    const Kind kind{parameter.options.dtype, parameter.options.trainable};
    const auto found = open.find(kind);
    const bool joins = found != open.end() && [&] {
      const Unit& unit = units[found->second];
      const std::string_view last = block_of(table[unit.parameters.back().parameter].name());
      return !full(unit, options) || !at_boundary(last, block_of(parameter.name()));
    }();
    if (!joins) {
      open[kind] = units.size();
      units.push_back(
          {.name = unit_name(parameter, names), .dtype = kind.first, .trainable = kind.second});
    }
    append(units[open[kind]], i, parameter.elements);
  }
  merge_tails(units, options);
  return units;
}

}  // namespace shardlight::layout
