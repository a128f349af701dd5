#include "shardlight/base/parse_quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace shardlight {
namespace {

constexpr IntegerRange kAny{0, std::numeric_limits<std::int64_t>::max()};

TEST(ParseCount, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*parse_count("n", "124439808", kAny), 124'439'808);
  EXPECT_EQ(*parse_count("n", "7.5e9", kAny), 7'500'000'000);
  EXPECT_EQ(*parse_count("n", "7.5E+9", kAny), 7'500'000'000);
  EXPECT_EQ(*parse_count("n", "7.5B", kAny), 7'500'000'000);
  EXPECT_EQ(*parse_count("n", " 1.3 T ", kAny), 1'300'000'000'000);
  EXPECT_EQ(*parse_count("n", "7b", kAny), 7'000'000'000);
  EXPECT_EQ(*parse_count("n", "12.0", kAny), 12);
  EXPECT_EQ(*parse_count("n", "1500e-2", kAny), 15);
  EXPECT_EQ(*parse_count("n", "0", kAny), 0);
}

TEST(ParseCount, IsExactWhereADoubleIsNot) {
  EXPECT_EQ(*parse_count("n", "9007199254740993", kAny), 9'007'199'254'740'993);  // 2^53 + 1
  EXPECT_EQ(*parse_count("n", "9223372036854775807", kAny), kAny.max);
  EXPECT_EQ(*parse_count("n", "0.1e1", kAny), 1);
  EXPECT_EQ(*parse_count("n", "1.000000000000000000", kAny), 1);
  EXPECT_EQ(*parse_count("n", "1.0000000000000000000000000", kAny), 1);
  EXPECT_EQ(*parse_count("n", "1.0000000000B", kAny), 1'000'000'000);
}

TEST(ParseCount, RefusesTheRestByName) {
  for (const char* text : {"",
                           " ",
                           "7.5G5",
                           "1.5",
                           "-1",
                           "+1",
                           "0x10",
                           "1e",
                           "1e99",
                           "e9",
                           ".",
                           "B",
                           "1,000",
                           "1 2",
                           "nan",
                           "inf",
                           "9223372036854775808",
                           "1e19",
                           "1e-3",
                           "1e-99",
                           "1_000"}) {
    const auto value = parse_count("--params", text, kAny);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().field(), "--params");
    EXPECT_EQ(value.error().value(), text);
  }
  EXPECT_FALSE(parse_count("n", "5", {6, 9}));
  EXPECT_FALSE(parse_count("n", "10", {6, 9}));
}

TEST(ParseBytes, DecimalAndBinarySuffixes) {
  EXPECT_EQ(*parse_bytes("m", "32GB", kAny), Bytes(32'000'000'000));
  EXPECT_EQ(*parse_bytes("m", "80 GiB", kAny), Bytes(std::int64_t{80} << 30));
  EXPECT_EQ(*parse_bytes("m", "1.5KiB", kAny), Bytes(1536));
  EXPECT_EQ(*parse_bytes("m", "4096B", kAny), Bytes(4096));
  for (const char* text : {"80", "32gb", "32 G", "-1GB", "1.0001KiB", "0.5", "GB", "1GBB"}) {
    EXPECT_FALSE(parse_bytes("m", text, kAny)) << text;
  }
}

TEST(ParseBytesPerSecond, TakesAnOptionalPerSecond) {
  EXPECT_EQ(*parse_bytes_per_second("b", "12.5GB/s"), 12'500'000'000);
  EXPECT_EQ(*parse_bytes_per_second("b", "300GB"), 300'000'000'000);
  EXPECT_FALSE(parse_bytes_per_second("b", "0GB/s"));
  EXPECT_FALSE(parse_bytes_per_second("b", "25"));       // of what?
  EXPECT_FALSE(parse_bytes_per_second("b", "100Gb/s"));  // bits are not bytes
}

TEST(ParseSeconds, NeedsItsUnit) {
  EXPECT_DOUBLE_EQ(parse_seconds("l", "5us")->count(), 5e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("l", "2.5 ms")->count(), 2.5e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("l", "0s")->count(), 0);
  for (const char* text : {"5", "-5us", "5 hours", "us", ""}) {
    EXPECT_FALSE(parse_seconds("l", text)) << text;
  }
}

TEST(ParseNumber, FiniteAndWithinBounds) {
  EXPECT_DOUBLE_EQ(*parse_number("x", "0.4", 0, 1), 0.4);
  EXPECT_DOUBLE_EQ(*parse_number("x", "3.12e14", 0, 1e18), 3.12e14);
  for (const char* text : {"", "x", "nan", "inf", "1.5", "-0.1", "0.4x"}) {
    EXPECT_FALSE(parse_number("x", text, 0, 1)) << text;
  }
}

}  // namespace
}  // namespace shardlight
