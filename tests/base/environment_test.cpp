#include "shardlight/base/environment.h"

#include <gtest/gtest.h>

namespace shardlight {
namespace {

TEST(Environment, UnsetAndEmptyAreNotGiven) {
  const Environment environment({{"A", "x"}, {"B", ""}});
  EXPECT_EQ(environment.text("A"), "x");
  EXPECT_EQ(environment.text("B"), std::nullopt);
  EXPECT_EQ(environment.text("C"), std::nullopt);
  EXPECT_EQ(*environment.integer("C", 0, 9), std::nullopt);
}

TEST(Environment, IntegersAreCheckedAndNamed) {
  const Environment environment({{"RANK", "3"}, {"BAD", "3x"}, {"HUGE", "99999999999999999999"}});
  EXPECT_EQ(**environment.integer("RANK", 0, 3), 3);
  EXPECT_FALSE(environment.integer("RANK", 0, 2));
  EXPECT_FALSE(environment.integer("HUGE", 0, 2));
  const auto bad = environment.integer("BAD", 0, 9);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message(),
            "environment variable BAD: '3x' is not allowed; allowed: a whole number from 0 to 9");
}

TEST(Environment, OfProcessSeesThePath) {
  EXPECT_TRUE(Environment::of_process().text("PATH").has_value());
}

}  // namespace
}  // namespace shardlight
