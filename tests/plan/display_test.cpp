#include "shardlight/plan/display.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "shardlight/plan/precision.h"

namespace shardlight::plan {
namespace {

std::string gb(double value) {
  return show_gb(Share(Bytes(static_cast<std::int64_t>(value * 1e9))));
}

TEST(Display, TheRuleOfTheLedger) {
  EXPECT_EQ(gb(257.75), "257");  // not rounded from 100 on
  EXPECT_EQ(gb(100.999), "100");
  EXPECT_EQ(gb(41.25), "41.3");  // half up
  EXPECT_EQ(gb(31.0), "31");
  EXPECT_EQ(gb(1.875), "1.88");
  EXPECT_EQ(gb(1.5), "1.5");
  EXPECT_EQ(gb(0), "0");
  EXPECT_EQ(gb(9.995), "10");
  EXPECT_EQ(gb(99.95), "100");
}

TEST(Display, AHalfIsAHalfEvenForSharesOfAByte) {
  // 1.875 GB less a seventh of a byte is below the half.
  EXPECT_EQ(show_gb(Share(static_cast<WideInteger>(1'875'000'000) * 7 - 1, 7)), "1.87");
  EXPECT_EQ(show_gb(Share(static_cast<WideInteger>(1'875'000'000) * 7, 7)), "1.88");
}

TEST(Display, SmallIsNotShownAsNothing) {
  EXPECT_EQ(gb(0.001), "<0.01");
  EXPECT_EQ(show_bytes(Share(Bytes(1'500'000))), "1.5 MB");
  EXPECT_EQ(show_bytes(Share(Bytes(999))), "999 B");
  EXPECT_EQ(show_bytes(Share()), "0 B");
  EXPECT_EQ(show_bytes(Share(1, 3)), "0.33 B");
  EXPECT_EQ(show_bytes(Share(12, 64)), "0.19 B");
  EXPECT_EQ(show_bytes(Share(15, 8)), "1.88 B");
  EXPECT_EQ(show_bytes(Share(1, 1000)), "<0.01 B");
}

TEST(Display, CountsSayTheirUnit) {
  EXPECT_EQ(show_count(Count(7'500'000'000)), "7.5B");
  EXPECT_EQ(show_count(Count(124'439'808)), "124.4M");
  EXPECT_EQ(show_count(Count(512)), "512");
  EXPECT_EQ(show_count(Count(999'999'999)), "1B");
  EXPECT_EQ(show_count(Count(1'300'000'000'000)), "1.3T");
  EXPECT_EQ(show_billions(Count(2'048'000'000'000)), "2048B");
  EXPECT_EQ(show_paper_count(Count(256'000'000'000)), "256B");
  EXPECT_EQ(show_paper_count(Count(512'000'000'000)), "0.5T");
}

TEST(Display, RatiosAndTimes) {
  EXPECT_EQ(show_ratio(3.8208955), "3.82");
  EXPECT_EQ(show_ratio(64), "64");
  EXPECT_EQ(show_ratio(0.625), "0.63");
  EXPECT_EQ(show_ratio(12.34), "12.3");
  EXPECT_EQ(show_seconds(Seconds(0.0000412)), "41.2 us");
  EXPECT_EQ(show_seconds(Seconds(0.0125)), "12.5 ms");
  EXPECT_EQ(show_seconds(Seconds(1.25)), "1.25 s");
  EXPECT_EQ(show_seconds(Seconds(7200)), "7200 s");
  EXPECT_EQ(show_seconds(Seconds(0.9996)), "1 s");
  EXPECT_EQ(show_seconds(Seconds(0)), "0 us");
  EXPECT_EQ(show_seconds(Seconds(1e-9)), "<0.01 us");
  EXPECT_EQ(show_seconds(Seconds(2e15)), "2000000000000000 s");
  EXPECT_EQ(show_ratio(7.99499955), "7.99");
  EXPECT_EQ(show_ratio(99.95), "100");
}

RC_GTEST_PROP(Share, AgreesWithWholeNumbersAndAddsUp, ()) {
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 2000);
  const auto a = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
  const auto b = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
  RC_ASSERT((Share(a, ranks) + Share(b, ranks)) == Share(a + b, ranks));
  RC_ASSERT(Share(a, ranks).floor().value() == a / ranks);
  RC_ASSERT(Share(a, ranks).ceiling().value() == (a + ranks - 1) / ranks);
  RC_ASSERT(Share(Bytes(a)) + Share(b, ranks) ==
            Share(static_cast<WideInteger>(a) * ranks + b, ranks));
  RC_ASSERT((Share(a, ranks) < Share(b, ranks)) == (a < b));
  RC_ASSERT(Share(static_cast<WideInteger>(a) * ranks, ranks) == Share(Bytes(a)));
}

}  // namespace
}  // namespace shardlight::plan
