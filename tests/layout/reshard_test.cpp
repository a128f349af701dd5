#include "shardlight/layout/reshard.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <stdexcept>

#include "random_layouts.h"

namespace shardlight::layout {
namespace {

constexpr std::int64_t kUnset = -1;
constexpr std::int64_t kPadding = -2;

// What every rank holds: for each unit its slice, element by element.
using Memory = std::map<std::pair<std::int64_t, UnitIndex>, std::vector<std::int64_t>>;

Memory empty_memory(const SliceTable& slices) {
  Memory memory;
  for (std::int64_t rank = 0; rank < slices.ranks(); ++rank) {
    for (UnitIndex unit = 0; unit < slices.units(); ++unit) {
      auto& slice = memory[{rank, unit}];
      slice.assign(slices.slice(unit, Rank(rank)).size().value(), kPadding);
      for (const SliceRow& row : slices.rows_of(unit, Rank(rank))) {
        for (std::int64_t i = 0; i < row.range.size().value(); ++i) {
          slice[row.slice_offset.value() + i] = kUnset;
        }
      }
    }
  }
  return memory;
}

// Every element gets a value that tells parameter and place.
Memory filled_memory(const SliceTable& slices) {
  Memory memory = empty_memory(slices);
  for (auto& [where, slice] : memory) {
    for (const SliceRow& row : slices.rows_of(where.second, Rank(where.first))) {
      for (std::int64_t i = 0; i < row.range.size().value(); ++i) {
        slice[row.slice_offset.value() + i] =
            static_cast<std::int64_t>(row.parameter) * 100'000 + row.range.begin.value() + i;
      }
    }
  }
  return memory;
}

Memory moved(const Memory& source, const SliceTable& from, const SliceTable& to) {
  Memory target = empty_memory(to);
  const auto copies = *reshard(from, to);
  for (const ReshardCopy& copy : copies) {
    const auto& slice = source.at({copy.source.value(), copy.source_unit});
    auto& into = target.at({copy.target.value(), copy.target_unit});
    for (std::int64_t i = 0; i < copy.range.size().value(); ++i) {
      std::int64_t& element = into.at(copy.target_offset.value() + i);
      if (element != kUnset) throw std::logic_error("written twice, or padding");
      element = slice.at(copy.source_offset.value() + i);
    }
  }
  return target;
}

RC_GTEST_PROP(Reshard, FillsEveryTargetFromAnySource, ()) {
  const ParameterTable table = random_table();
  const SliceTable from = random_slices(random_units(table));
  const SliceTable to = random_slices(random_units(table));
  RC_ASSERT(moved(filled_memory(from), from, to) == filled_memory(to));
}

RC_GTEST_PROP(Reshard, ThereAndBackIsTheIdentity, ()) {
  const ParameterTable table = random_table();
  const SliceTable here = random_slices(random_units(table));
  const SliceTable there = random_slices(random_units(table));
  const Memory memory = filled_memory(here);
  RC_ASSERT(moved(moved(memory, here, there), there, here) == memory);
}

RC_GTEST_PROP(Reshard, ToTheSameShardingMovesNothingBetweenRanks, ()) {
  const SliceTable slices = random_slices(random_units(random_table()));
  const auto copies = *reshard(slices, slices);
  for (const ReshardCopy& copy : copies) {
    RC_ASSERT(copy.source == copy.target);
    RC_ASSERT(copy.source_offset == copy.target_offset);
  }
}

TEST(Reshard, BetweenStagesAndWorldsOfARealSize) {
  ParameterTable table;
  ASSERT_TRUE(table.add("a", {70'000, 70'000}));
  ASSERT_TRUE(table.add("b", {}));
  const auto units = *build_units(table);
  const auto from = *SliceTable::create(units, placements_of_stage(3, 3)->parameters, 3);
  const auto to = *SliceTable::create(units, placements_of_stage(0, 2)->parameters, 2);
  const auto copies = *reshard(from, to);
  Count moved_to_rank_1;
  for (const ReshardCopy& copy : copies) {
    if (copy.target == Rank(1)) moved_to_rank_1 += copy.range.size();
  }
  EXPECT_EQ(moved_to_rank_1, Count(4'900'000'001));
}

TEST(Reshard, FromEveryStageAndWorldToEveryOther) {
  ParameterTable table;
  for (const std::int64_t elements : {1000, 0, 1, 129, 64}) {
    ASSERT_TRUE(table.add("p" + std::to_string(elements), {elements}));
  }
  const auto small_units = *build_units(table, {.bytes_min = Bytes(0)});
  const auto one_unit = *build_units(table);
  std::vector<SliceTable> tables;
  for (int stage = 0; stage < kStages; ++stage) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 8}) {
      const auto placements = *placements_of_stage(stage, ranks);
      for (const Placement& placement :
           {placements.parameters, placements.gradients, placements.optimizer}) {
        tables.push_back(
            *SliceTable::create(ranks % 2 == 0 ? small_units : one_unit, placement, ranks));
      }
    }
  }
  for (const SliceTable& from : tables) {
    for (const SliceTable& to : tables) {
      ASSERT_EQ(moved(filled_memory(from), from, to), filled_memory(to));
    }
  }
}

TEST(Reshard, ReplicasTakeTurnsAsSources) {
  ParameterTable table;
  ASSERT_TRUE(table.add("a", {64}));
  const auto units = *build_units(table);
  const auto from = *SliceTable::create(units, {1}, 2);
  const auto to = *SliceTable::create(units, {1}, 4);
  std::vector<std::int64_t> sources;
  const auto copies = *reshard(from, to);
  for (const ReshardCopy& copy : copies) sources.push_back(copy.source.value());
  EXPECT_EQ(sources, (std::vector<std::int64_t>{0, 1, 0, 1}));
}

TEST(Reshard, WhatTheSourceLacksIsAnError) {
  ParameterTable small, large;
  ASSERT_TRUE(small.add("a", {64}));
  ASSERT_TRUE(large.add("a", {65}));
  const auto from = *SliceTable::create(*build_units(small), {1}, 1);
  const auto to = *SliceTable::create(*build_units(large), {1}, 1);
  EXPECT_EQ(
      reshard(from, to).error().message(),
      "reshard: 'element 64 of parameter 0' is not allowed; allowed: elements that the source "
      "holds");
}

}  // namespace
}  // namespace shardlight::layout
