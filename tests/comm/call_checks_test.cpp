// Which mistakes of a caller are refused, and in which words; how an all-reduce combines.
#include "shardlight/comm/call_checks.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/comm/unit_shapes.h"

namespace shardlight::comm {
namespace {

std::string said(const Status& status) { return status ? "" : status.error().message(); }

std::string refused(const std::string& field, const std::string& value,
                    const std::string& allowed) {
  return field + ": '" + value + "' is not allowed; allowed: " + allowed;
}

std::vector<UnitSpec> two_units() {
  std::vector<UnitSpec> units = {unit_of("u", 10, 2), unit_of("frozen", 10, 2)};
  units[1].reduces = false;
  return units;
}

TEST(CallChecks, UnitsAreThoseThatThereAre) {
  EXPECT_EQ(said(check_unit(two_units(), 1)), "");
  EXPECT_EQ(said(check_unit(two_units(), 2)), refused("unit", "2", "below 2"));
  EXPECT_EQ(said(check_reduces(two_units(), 0)), "");
  EXPECT_EQ(said(check_reduces(two_units(), 1)), refused("unit", "frozen", "a unit that reduces"));
  EXPECT_EQ(said(check_reduces(two_units(), 2)), refused("unit", "2", "below 2"));
}

TEST(CallChecks, RanksAreWithinTheWorldAndPeersAreOthers) {
  EXPECT_EQ(said(check_rank("root", Rank(0), 2)), "");
  EXPECT_EQ(said(check_rank("root", Rank(1), 2)), "");
  EXPECT_EQ(said(check_rank("root", Rank(2), 2)), refused("root", "2", "0 to 1"));
  EXPECT_EQ(said(check_rank("root", Rank(-1), 2)), refused("root", "-1", "0 to 1"));
  EXPECT_EQ(said(check_peer("to", Rank(0), Rank(1), 2)), "");
  EXPECT_EQ(said(check_peer("to", Rank(1), Rank(1), 2)), refused("to", "1", "another rank"));
  EXPECT_EQ(said(check_peer("from", Rank(2), Rank(1), 2)), refused("from", "2", "0 to 1"));
}

TEST(CallChecks, TargetsHaveTheUnitsSize) {
  const UnitSpec unit = unit_of("u", 10, 2);
  const std::array<std::byte, 41> bytes = {};
  std::array<float, 10> floats = {};
  EXPECT_EQ(said(check_target(unit, std::span(bytes).first(40))), "");
  EXPECT_EQ(said(check_target(unit, bytes)), refused("target", "41 bytes", "the unit's 40"));
  EXPECT_EQ(said(check_sum_target(unit, SumSpan(floats))), "");
  EXPECT_EQ(said(check_sum_target(unit, SumSpan(std::span(floats).first(9)))),
            refused("target", "9 elements of float32", "the unit's 10 elements of float32"));
  UnitSpec rounded = unit;
  rounded.sum_dtype = layout::DType::kBFloat16;
  EXPECT_EQ(said(check_sum_target(rounded, SumSpan(floats))),
            refused("target", "10 elements of float32", "the unit's 10 elements of bfloat16"));
}

TEST(CallChecks, RoundsAreNotReleasedAndAnAllReduceIsSmall) {
  EXPECT_EQ(said(check_not_released(3, false)), "");
  EXPECT_EQ(said(check_not_released(3, true)),
            refused("round", "3", "one whose sum this rank has not released"));
  const std::array<double, Transport::kMaxAllReduce + 1> values = {};
  EXPECT_EQ(said(check_all_reduce(std::span(values).first(Transport::kMaxAllReduce))), "");
  EXPECT_EQ(said(check_all_reduce(values)), refused("values", "257 numbers", "at most 256"));
}

std::vector<double> combined(std::vector<double> result, const std::vector<double>& more,
                             Combine combine) {
  combine_into(result, more, combine);
  return result;
}

TEST(CallChecks, CombiningAddsOrTakesTheGreater) {
  EXPECT_EQ(combined({1, -2}, {3, -4}, Combine::kSum), (std::vector<double>{4, -6}));
  EXPECT_EQ(combined({1, -2}, {3, -4}, Combine::kMax), (std::vector<double>{3, -2}));
  EXPECT_EQ(combined({1, 2}, {5}, Combine::kSum), (std::vector<double>{6, 2}));
  EXPECT_EQ(combined({1}, {5, 7}, Combine::kMax), (std::vector<double>{5}));
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const Combine combine : {Combine::kSum, Combine::kMax}) {
    EXPECT_TRUE(std::isnan(combined({none}, {1}, combine)[0])) << name_of(combine);
    EXPECT_TRUE(std::isnan(combined({1}, {none}, combine)[0])) << name_of(combine);
  }
  EXPECT_EQ(name_of(Combine::kSum), "sum");
  EXPECT_EQ(name_of(Combine::kMax), "max");
}

}  // namespace
}  // namespace shardlight::comm
