#include "shardlight/comm/transport.h"

#include <fmt/format.h>

#include <set>

#include "shardlight/layout/placement.h"

namespace shardlight::comm {

Count UnitSpec::elements() const {
  return slice_begin(Rank(static_cast<std::int64_t>(slices.size())));
}

Count UnitSpec::slice_begin(Rank rank) const {
  Count begin;
  for (std::int64_t i = 0; i < rank.value(); ++i) begin += slices[static_cast<std::size_t>(i)];
  return begin;
}

Status check_units(const std::vector<UnitSpec>& units, std::int64_t world) {
  std::set<std::string> names;
  for (const UnitSpec& unit : units) {
    if (unit.name.empty() || !names.insert(unit.name).second) {
      return user_error("unit name", unit.name, "each name once, and none empty");
    }
    if (static_cast<std::int64_t>(unit.slices.size()) != world) {
      return user_error(unit.name + ".slices", fmt::to_string(unit.slices.size()),
                        fmt::format("one for each of {} ranks", world));
    }
    std::int64_t left = std::int64_t{1} << 60;
    for (const Count slice : unit.slices) {
      if (slice < Count(0) || slice.value() > left) {
        return user_error(unit.name + ".slices", fmt::to_string(slice.value()),
                          "0 elements or more, at most 2^60 together");
      }
      left -= slice.value();
    }
    if (unit.reduces && !can_reduce(unit.sum_dtype)) {
      return user_error(unit.name + ".sum_dtype", std::string(layout::torch_name(unit.sum_dtype)),
                        kReducedDTypes);
    }
    const bool grouped = unit.order.kind == ReduceOrderKind::kGrouped;
    if (grouped && (unit.order.group < 1 || unit.order.group > world)) {
      return user_error(unit.name + ".order.group", fmt::to_string(unit.order.group),
                        fmt::format("1 to {}, the number of ranks", world));
    }
  }
  return {};
}

std::string text_of(const std::vector<UnitSpec>& units) {
  std::string text;
  for (const UnitSpec& unit : units) {
    text += fmt::format("\n{} {} {} {} {} {}", unit.name, static_cast<int>(unit.dtype),
                        text_of(unit.order), unit.reduces, unit.whole,
                        static_cast<int>(unit.sum_dtype));
    for (const Count slice : unit.slices) text += fmt::format(" {}", slice.value());
  }
  return text;
}

}  // namespace shardlight::comm
