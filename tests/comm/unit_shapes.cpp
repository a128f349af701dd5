#include "tests/comm/unit_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "shardlight/base/arithmetic.h"
#include "shardlight/base/random.h"

namespace shardlight::comm {
namespace {

using layout::DType;

constexpr std::array kDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Every second rank has nothing.
std::vector<Count> with_holes(std::int64_t elements, std::int64_t world) {
  std::vector<Count> slices(static_cast<std::size_t>(world));
  for (std::int64_t rank = 0; rank < world; rank += 2) slices[rank] = Count(elements);
  return slices;
}

}  // namespace

DType reduced_dtype(std::size_t index) { return kDTypes[index % kDTypes.size()]; }

Stretches stretches_within(std::int64_t elements, std::uint64_t key) {
  std::uint64_t drawn = 0;
  const CounterRandom random(key);
  const auto upto = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random.bits(drawn++) % static_cast<std::uint64_t>(most + 1));
  };
  switch (upto(4)) {
    case 0: {  // many small ones, with and without gaps
      Stretches many;
      const std::int64_t widest = 9 + elements / 256;
      for (std::int64_t begin = upto(9); begin < elements; begin += upto(widest)) {
        many.push_back({begin, std::min(begin + upto(17), elements)});
        begin = many.back().end;
      }
      return many.empty() ? Stretches{{elements, elements}} : many;
    }
    case 1: {  // one anywhere
      const std::int64_t begin = upto(elements);
      return {{begin, begin + upto(elements - begin)}};
    }
    case 2: {  // two that touch, and one of nothing
      const std::int64_t middle = upto(elements);
      return {{0, 0}, {0, middle}, {middle, elements}};
    }
    default:
      return {{0, elements}};
  }
}

UnitSpec unit_of(std::string name, std::int64_t elements, std::int64_t world) {
  UnitSpec unit{.name = std::move(name)};
  const std::int64_t each = divide_up(elements, world);
  for (std::int64_t rank = 0; rank < world; ++rank) {
    const std::int64_t left = std::max<std::int64_t>(elements - rank * each, 0);
    unit.slices.emplace_back(std::min(each, left));
  }
  return unit;
}

std::vector<UnitSpec> units_of_all_shapes(std::int64_t world) {
  using enum ReduceOrderKind;
  const std::vector<ReduceOrder> orders = {
      {.kind = kLinear},
      {.kind = kGrouped, .group = 1},
      {.kind = kGrouped, .group = std::min<std::int64_t>(2, world)},
      {.kind = kGrouped, .group = std::min<std::int64_t>(3, world)},
      {.kind = kGrouped, .group = world},
      {.kind = kTree}};
  std::vector<UnitSpec> units;
  // Each length with each dtype of sums, too.
  const auto add = [&](UnitSpec unit) {
    unit.dtype = reduced_dtype(units.size());
    unit.sum_dtype = reduced_dtype(units.size() / 3);
    unit.name = fmt::format("{}.{}", units.size(), unit.name);
    units.push_back(std::move(unit));
  };
  for (const ReduceOrder& order : orders) {
    for (const std::int64_t elements : {0L, 1L, 77L, 100 * world + 3, 2 * 65'536L + 5}) {
      UnitSpec unit = unit_of(fmt::format("{}", elements), elements, world);
      unit.order = order;
      add(unit);
    }
    UnitSpec holes{.name = "holes", .slices = with_holes(130, world), .order = order};
    add(holes);
    UnitSpec last{.name = "last", .slices = std::vector<Count>(world), .order = order};
    last.slices.back() = Count(65'536);
    add(last);
  }
  UnitSpec frozen = unit_of("frozen", 1001, world);
  frozen.reduces = false;
  add(frozen);
  for (const std::int64_t elements : {0L, 77L, 65'536L + 3}) {
    UnitSpec whole = unit_of(fmt::format("whole {}", elements), elements, world);
    whole.whole = true;
    whole.order = orders[static_cast<std::size_t>(elements) % orders.size()];
    add(whole);
  }
  UnitSpec holes{.name = "whole holes", .slices = with_holes(130, world), .whole = true};
  add(holes);
  return units;
}

}  // namespace shardlight::comm
