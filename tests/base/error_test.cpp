#include "shardlight/base/error.h"

#include <gtest/gtest.h>

#include "shardlight/base/result.h"

namespace shardlight {
namespace {

TEST(Error, UserErrorNamesFieldValueAndWhatIsAllowed) {
  const Error error = Error::user("--ranks", "0", "1 or more");
  EXPECT_EQ(error.category(), ErrorCategory::kUser);
  EXPECT_EQ(error.message(), "--ranks: '0' is not allowed; allowed: 1 or more");
  EXPECT_STREQ(error.what(), error.message().c_str());
}

TEST(Error, MissingValueReadsAsMissing) {
  EXPECT_EQ(Error::user("n_embd", "", "a whole number").message(),
            "n_embd: is missing; allowed: a whole number");
}

TEST(Error, WithinPutsThePathBefore) {
  const Error error = Error::user("stage", "7", "0 to 3").within("zero_optimization");
  EXPECT_EQ(error.field(), "zero_optimization.stage");
  EXPECT_EQ(Error::user("n_embd", "", "x").within("a.json", ": ").field(), "a.json: n_embd");
  EXPECT_EQ(Error::user("", "x", "y").within("a.json").field(), "a.json");
}

TEST(Error, EnvironmentErrorSaysWhereAndWhatIsLost) {
  const Error error = Error::environment({.rank = Rank(3), .unit = "h.0", .operation = "gather"},
                                         "rank 1 is gone", Unusable::kCommunicator);
  EXPECT_EQ(error.message(),
            "rank 3, unit h.0, gather: rank 1 is gone; no longer usable: the communicator");
  EXPECT_EQ(error.unusable(), Unusable::kCommunicator);
  EXPECT_EQ(Error::environment({}, "disk full", Unusable::kOperation).message(),
            "disk full; no longer usable: this operation");
}

TEST(Error, BugSaysSo) { EXPECT_EQ(Error::bug("x").message(), "a bug in shardlight: x"); }

Result<int> half(int value) {
  if (value % 2 != 0) return user_error("value", std::to_string(value), "an even number");
  return value / 2;
}

Status expect_even(int value) {
  SHARDLIGHT_TRY(const int ignored, half(value));
  (void)ignored;
  return {};
}

Result<int> quarter(int value) {
  SHARDLIGHT_TRY_STATUS(expect_even(value));
  SHARDLIGHT_TRY(const int once, half(value));
  return half(once);
}

TEST(Result, TryPassesValuesOnAndErrorsUp) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().value(), "3");
  EXPECT_EQ(quarter(7).error().value(), "7");
}

}  // namespace
}  // namespace shardlight
