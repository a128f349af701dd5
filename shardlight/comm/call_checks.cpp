#include "shardlight/comm/call_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardlight::comm {
namespace {

// std::max would take a NaN or leave it by which rank has it.
double greater_of(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

}  // namespace

Status check_unit(const std::vector<UnitSpec>& units, UnitId unit) {
  if (unit < units.size()) return {};
  return user_error("unit", fmt::to_string(unit), fmt::format("below {}", units.size()));
}

Status check_reduces(const std::vector<UnitSpec>& units, UnitId unit) {
  SHARDLIGHT_TRY_STATUS(check_unit(units, unit));
  if (units[unit].reduces) return {};
  return user_error("unit", units[unit].name, "a unit that reduces");
}

Status check_rank(const char* field, Rank rank, std::int64_t world) {
  if (rank >= Rank(0) && rank < Rank(world)) return {};
  return user_error(field, fmt::to_string(rank.value()), fmt::format("0 to {}", world - 1));
}

Status check_peer(const char* field, Rank peer, Rank own, std::int64_t world) {
  if (peer != own) return check_rank(field, peer, world);
  return user_error(field, fmt::to_string(peer.value()), "another rank");
}

Status check_target(const UnitSpec& unit, std::span<const std::byte> target) {
  const std::int64_t bytes = unit.bytes().value();
  if (target.size() == static_cast<std::size_t>(bytes)) return {};
  return user_error("target", fmt::format("{} bytes", target.size()),
                    fmt::format("the unit's {}", bytes));
}

Status check_sum_target(const UnitSpec& unit, const SumSpan& target) {
  const auto text = [](Count elements, layout::DType dtype) {
    return fmt::format("{} elements of {}", elements.value(), layout::torch_name(dtype));
  };
  if (target.elements() == unit.elements() && target.dtype() == unit.sum_dtype) return {};
  return user_error("target", text(target.elements(), target.dtype()),
                    "the unit's " + text(unit.elements(), unit.sum_dtype));
}

Status check_not_released(std::int64_t round, bool released) {
  if (!released) return {};
  return user_error("round", fmt::to_string(round), "one whose sum this rank has not released");
}

Status check_all_reduce(std::span<const double> values) {
  if (values.size() <= Transport::kMaxAllReduce) return {};
  return user_error("values", fmt::format("{} numbers", values.size()),
                    fmt::format("at most {}", Transport::kMaxAllReduce));
}

void combine_into(std::span<double> result, std::span<const double> more, Combine combine) {
  const std::size_t size = std::min(result.size(), more.size());
  for (std::size_t i = 0; i < size; ++i) {
    result[i] = combine == Combine::kSum ? result[i] + more[i] : greater_of(result[i], more[i]);
  }
}

std::string_view name_of(Combine combine) { return combine == Combine::kSum ? "sum" : "max"; }

}  // namespace shardlight::comm
