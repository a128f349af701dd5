#include "shardlight/layout/unit.h"
#include "shardlight/base/arithmetic.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "random_layouts.h"

namespace shardlight::layout {
namespace {

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return names;
}

// Embedding, blocks of two parameters, a small last norm.
ParameterTable gpt(std::int64_t blocks, std::int64_t block_elements) {
  ParameterTable table;
  EXPECT_TRUE(table.add("wte", {10'000}));
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::string block = "h." + std::to_string(i);
    EXPECT_TRUE(table.add(block + ".w", {block_elements}));
    EXPECT_TRUE(table.add(block + ".b", {1}));
  }
  EXPECT_TRUE(table.add("ln.weight", {10}));
  return table;
}

TEST(BuildUnits, ABlockIsAUnitOnceItIsLargeEnough) {
  const auto units = *build_units(gpt(3, 1000), {.bytes_min = Bytes(4000)});
  EXPECT_EQ(names_of(units), (std::vector<std::string>{"wte", "h.0", "h.1", "h.2"}));
  EXPECT_EQ(units[3].parameters.size(), 3U);  // the small norm joined the last block
  EXPECT_EQ(units[1].used, Count(1001));
  EXPECT_EQ(units[1].elements, Count(1024 + 64));
  EXPECT_EQ(units[1].parameters[1].offset, Count(1024));
}

TEST(BuildUnits, SmallBlocksShareAUnitAndAreNeverSplit) {
  const auto units = *build_units(gpt(4, 100), {.bytes_min = Bytes(1000)});
  EXPECT_EQ(names_of(units), (std::vector<std::string>{"wte", "h.0", "h.2"}));
}

TEST(BuildUnits, DtypesAndFrozenPartsAreApart) {
  ParameterTable table;
  ASSERT_TRUE(table.add("h.0.w", {100}));
  ASSERT_TRUE(table.add("h.0.lora", {100}, {.trainable = false}));
  ASSERT_TRUE(table.add("h.0.norm", {100}, {.dtype = DType::kBFloat16}));
  ASSERT_TRUE(table.add("h.0.b", {100}));
  const auto units = *build_units(table);
  // An exchange takes no two units of one name.
  EXPECT_EQ(names_of(units), (std::vector<std::string>{"h.0", "h.0.lora", "h.0.norm"}));
  EXPECT_EQ(units[0].parameters.size(), 2U);
  EXPECT_FALSE(units[1].trainable);
  EXPECT_EQ(units[2].dtype, DType::kBFloat16);
}

TEST(BuildUnits, NoParametersNoUnitsAndNegativeSizesAreRefused) {
  EXPECT_TRUE(build_units(ParameterTable())->empty());
  EXPECT_EQ(build_units(ParameterTable(), {.bytes_min = Bytes(-1)}).error().field(), "unit_bytes");
}

RC_GTEST_PROP(BuildUnits, EveryParameterOnceAlignedAndOfItsKind, ()) {
  const ParameterTable table = random_table();
  const std::vector<Unit> units = random_units(table);
  std::map<ParameterIndex, int> seen;
  for (const Unit& unit : units) {
    RC_ASSERT(!unit.parameters.empty());
    Count next, used;
    for (const PlacedParameter& placed : unit.parameters) {
      RC_ASSERT(placed.offset == next);
      RC_ASSERT(placed.offset.value() % kGrainElements == 0);
      RC_ASSERT(placed.elements == table[placed.parameter].elements);
      RC_ASSERT(table[placed.parameter].options.dtype == unit.dtype);
      RC_ASSERT(table[placed.parameter].options.trainable == unit.trainable);
      next = Count(round_up((placed.offset + placed.elements).value(), kGrainElements));
      used += placed.elements;
      ++seen[placed.parameter];
    }
    RC_ASSERT(unit.elements == next);
    RC_ASSERT(unit.used == used);
  }
  RC_ASSERT(seen.size() == table.size());
  for (const auto& [parameter, times] : seen) RC_ASSERT(times == 1);
}

RC_GTEST_PROP(BuildUnits, ABlockIsNeverSplit, ()) {
  const auto blocks = *rc::gen::inRange(1, 6);
  ParameterTable table;
  for (int i = 0; i < blocks; ++i) {
    const auto parts = *rc::gen::inRange(1, 5);
    for (int k = 0; k < parts; ++k) {
      const auto elements = *rc::gen::inRange<std::int64_t>(0, 3000);
      RC_ASSERT(table.add("h." + std::to_string(i) + ".p" + std::to_string(k), {elements}));
    }
  }
  std::map<std::string, UnitIndex> unit_of_block;
  const std::vector<Unit> units = random_units(table);
  for (UnitIndex unit = 0; unit < units.size(); ++unit) {
    for (const PlacedParameter& placed : units[unit].parameters) {
      const std::string block(block_of(table[placed.parameter].name()));
      RC_ASSERT(unit_of_block.emplace(block, unit).first->second == unit);
    }
  }
}

}  // namespace
}  // namespace shardlight::layout
