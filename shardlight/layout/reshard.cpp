#include "shardlight/layout/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardlight::layout {
namespace {

// Rows by parameter, then by place in it: what a range of a parameter is looked up in.
std::vector<SliceRow> by_parameter(const SliceTable& table) {
  std::vector<SliceRow> rows = table.rows();
  std::sort(rows.begin(), rows.end(), [](const SliceRow& a, const SliceRow& b) {
    return std::pair(a.parameter, a.range.begin) < std::pair(b.parameter, b.range.begin);
  });
  return rows;
}

// The first row that holds or follows element `at` of `parameter`.
std::vector<SliceRow>::const_iterator row_at(const std::vector<SliceRow>& rows,
                                             ParameterIndex parameter, Count at) {
  return std::partition_point(rows.begin(), rows.end(), [&](const SliceRow& row) {
    return std::pair(row.parameter, row.range.end) <= std::pair(parameter, at);
  });
}

Rank source_for(const SliceTable& from, std::int64_t member, Rank target) {
  if (target.value() < from.ranks() && from.member_of(target) == member) return target;
  return from.holder(member, target.value() % from.replicas());
}

// Appends the copies that fill one row of one target rank.
Status fill_row(const SliceTable& from, const std::vector<SliceRow>& sources, const SliceRow& row,
                Rank target, std::vector<ReshardCopy>& copies) {
  auto source = row_at(sources, row.parameter, row.range.begin);
  for (Count at = row.range.begin; at < row.range.end; ++source) {
    if (source == sources.end() || source->parameter != row.parameter || source->range.begin > at) {
      return user_error("reshard",
                        fmt::format("element {} of parameter {}", at.value(), row.parameter),
                        "elements that the source holds");
    }
    const Count stop = std::min(source->range.end, row.range.end);
    copies.push_back({.source = source_for(from, source->member, target),
                      .target = target,
                      .parameter = row.parameter,
                      .range = {at, stop},
                      .source_unit = source->unit,
                      .source_offset = source->slice_offset + (at - source->range.begin),
                      .target_unit = row.unit,
                      .target_offset = row.slice_offset + (at - row.range.begin)});
    at = stop;
  }
  return {};
}

}  // namespace

Result<std::vector<ReshardCopy>> reshard(const SliceTable& from, const SliceTable& to) {
  const std::vector<SliceRow> sources = by_parameter(from);
  std::vector<ReshardCopy> copies;
  for (std::int64_t rank = 0; rank < to.ranks(); ++rank) {
    for (UnitIndex unit = 0; unit < to.units(); ++unit) {
      for (const SliceRow& row : to.rows_of(unit, Rank(rank))) {
        SHARDLIGHT_TRY_STATUS(fill_row(from, sources, row, Rank(rank), copies));
      }
    }
  }
  return copies;
}

}  // namespace shardlight::layout
