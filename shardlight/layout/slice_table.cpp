#include "shardlight/layout/slice_table.h"

#include <algorithm>

#include "shardlight/base/arithmetic.h"

namespace shardlight::layout {

Count slice_elements(Count unit_elements, std::int64_t ways) {
  return Count(round_up(divide_up(unit_elements.value(), ways), kGrainElements));
}

Result<SliceTable> SliceTable::create(const std::vector<Unit>& units, Placement placement,
                                      std::int64_t ranks) {
  SHARDLIGHT_TRY_STATUS(check_placement(placement, ranks));
  SliceTable table(placement, ranks);
  for (UnitIndex i = 0; i < units.size(); ++i) table.add_unit(units[i], i);
  table.first_row_.push_back(table.rows_.size());
  return table;
}

void SliceTable::add_unit(const Unit& unit, UnitIndex index) {
  const std::int64_t slice = slice_elements(unit.elements, placement_.ways).value();
  first_row_.push_back(rows_.size());
  unit_elements_.push_back(unit.elements);
  slice_elements_.push_back(Count(slice));
  for (const PlacedParameter& placed : unit.parameters) {
    const std::int64_t begin = placed.offset.value();
    const std::int64_t end = begin + placed.elements.value();
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t owner = at / slice;
      const std::int64_t stop = std::min(end, (owner + 1) * slice);
      rows_.push_back({.parameter = placed.parameter,
                       .range = {Count(at - begin), Count(stop - begin)},
                       .unit = index,
                       .member = owner,
                       .slice_offset = Count(at - owner * slice)});
      at = stop;
    }
  }
}

std::span<const SliceRow> SliceTable::rows_of(UnitIndex unit, Rank rank) const {
  const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(first_row_[unit]);
  const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(first_row_[unit + 1]);
  const auto by_member = [](const SliceRow& a, const SliceRow& b) { return a.member < b.member; };
  const SliceRow wanted{.member = member_of(rank)};
  const auto [first, last] = std::equal_range(begin, end, wanted, by_member);
  return {first, last};
}

ElementRange SliceTable::slice(UnitIndex unit, Rank rank) const {
  const Count all = unit_elements_[unit];
  const Count begin = std::min(all, slice_elements_[unit] * member_of(rank));
  return {begin, std::min(all, begin + slice_elements_[unit])};
}

Count SliceTable::elements_of(Rank rank) const {
  Count sum;
  for (UnitIndex unit = 0; unit < units(); ++unit) sum += slice(unit, rank).size();
  return sum;
}

}  // namespace shardlight::layout
