#include "shardlight/layout/slice_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "random_layouts.h"

namespace shardlight::layout {
namespace {

TEST(Placements, AStageIsARow) {
  EXPECT_EQ(*placements_of_stage(0, 8), (Placements{{1}, {1}, {1}}));
  EXPECT_EQ(*placements_of_stage(1, 8), (Placements{{1}, {1}, {8}}));
  EXPECT_EQ(*placements_of_stage(2, 8), (Placements{{1}, {8}, {8}}));
  EXPECT_EQ(*placements_of_stage(3, 8), (Placements{{8}, {8}, {8}}));
  EXPECT_EQ(*placements_of_hybrid(4, 8), (Placements{{4}, {4}, {4}}));
}

TEST(Placements, RefusesWhatCannotBe) {
  EXPECT_EQ(placements_of_stage(4, 8).error().field(), "stage");
  EXPECT_EQ(placements_of_stage(-1, 8).error().field(), "stage");
  EXPECT_EQ(placements_of_stage(1, 0).error().field(), "ranks");
  EXPECT_EQ(placements_of_stage(1, kMaxRanks + 1).error().field(), "ranks");
  EXPECT_EQ(placements_of_hybrid(3, 8).error().field(), "group");
  EXPECT_EQ(SliceTable::create({}, {3}, 8).error().field(), "placement.ways");
}

TEST(SliceTable, MoreRanksThanBlocksLeavesTheLastOnesEmpty) {
  ParameterTable table;
  ASSERT_TRUE(table.add("w", {100}));
  const auto slices = *SliceTable::create(*build_units(table), {4}, 4);
  EXPECT_EQ(slices.slice(0, Rank(0)).size(), Count(64));
  EXPECT_EQ(slices.slice(0, Rank(1)).size(), Count(64));  // 36 elements and their padding
  EXPECT_EQ(slices.slice(0, Rank(2)).size(), Count(0));
  EXPECT_EQ(slices.rows_of(0, Rank(1))[0].range, (ElementRange{Count(64), Count(100)}));
  EXPECT_TRUE(slices.rows_of(0, Rank(3)).empty());
}

TEST(SliceTable, ParametersAbove2To31Elements) {
  const std::int64_t elements = (std::int64_t{1} << 40) + 1;
  ParameterTable table;
  ASSERT_TRUE(table.add("w", {elements}));
  const std::int64_t ranks = 1000;
  const auto slices = *SliceTable::create(*build_units(table), {ranks}, ranks);
  Count covered;
  for (const SliceRow& row : slices.rows()) {
    ASSERT_EQ(row.range.begin, covered);
    covered = row.range.end;
  }
  EXPECT_EQ(covered, Count(elements));
  EXPECT_EQ(slices.rows().size(), 1000U);
}

RC_GTEST_PROP(SliceTable, EveryElementHasOneOwnerAGroup, ()) {
  const ParameterTable table = random_table();
  const std::vector<Unit> units = random_units(table);
  const SliceTable slices = random_slices(units);
  for (std::int64_t replica = 0; replica < slices.replicas(); ++replica) {
    std::vector<std::vector<int>> owners;
    for (const Parameter& p : table.parameters()) owners.emplace_back(p.elements.value(), 0);
    for (UnitIndex unit = 0; unit < slices.units(); ++unit) {
      for (std::int64_t member = 0; member < slices.placement().ways; ++member) {
        const Rank rank = slices.holder(member, replica);
        RC_ASSERT(slices.member_of(rank) == member);
        for (const SliceRow& row : slices.rows_of(unit, rank)) {
          for (Count at = row.range.begin; at < row.range.end; at += Count(1)) {
            ++owners[row.parameter][at.value()];
          }
        }
      }
    }
    for (const auto& of_parameter : owners) {
      for (const int count : of_parameter) RC_ASSERT(count == 1);
    }
  }
}

RC_GTEST_PROP(SliceTable, RowsLieWhereTheUnitPutsThem, ()) {
  const ParameterTable table = random_table();
  const std::vector<Unit> units = random_units(table);
  const SliceTable slices = random_slices(units);
  for (const SliceRow& row : slices.rows()) {
    const Rank rank = slices.holder(row.member, 0);
    const ElementRange slice = slices.slice(row.unit, rank);
    RC_ASSERT(row.range.size() > Count(0));
    RC_ASSERT(row.slice_offset + row.range.size() <= slice.size());
    // Every cut is a whole number of blocks from the parameter's start.
    RC_ASSERT(row.range.begin.value() % kGrainElements == 0);
    RC_ASSERT(row.slice_offset.value() % kGrainElements == 0);
    Count offset_in_unit;
    for (const PlacedParameter& placed : units[row.unit].parameters) {
      if (placed.parameter == row.parameter) offset_in_unit = placed.offset;
    }
    RC_ASSERT(slice.begin + row.slice_offset == offset_in_unit + row.range.begin);
  }
}

RC_GTEST_PROP(SliceTable, SlicesTileTheUnitAndRankZeroHasTheMost, ()) {
  const std::vector<Unit> units = random_units(random_table());
  const SliceTable slices = random_slices(units);
  Count all, of_group;
  for (UnitIndex unit = 0; unit < units.size(); ++unit) {
    Count next;
    for (std::int64_t member = 0; member < slices.placement().ways; ++member) {
      const ElementRange slice = slices.slice(unit, Rank(member));
      RC_ASSERT(slice.begin == next);
      RC_ASSERT(slice.size().value() % kGrainElements == 0);
      next = slice.end;
    }
    RC_ASSERT(next == units[unit].elements);
    all += units[unit].elements;
  }
  for (std::int64_t member = 0; member < slices.placement().ways; ++member) {
    RC_ASSERT(slices.elements_of(Rank(member)) <= slices.elements_of(Rank(0)));
    of_group += slices.elements_of(Rank(member));
  }
  RC_ASSERT(of_group == all);
}

}  // namespace
}  // namespace shardlight::layout
