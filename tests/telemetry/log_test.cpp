#include "shardlight/telemetry/log.h"

#include <gtest/gtest.h>

namespace shardlight::telemetry {
namespace {

std::string logged(LogLevel level, std::optional<Rank> rank) {
  testing::internal::CaptureStderr();
  const Logger log(level, rank);
  log.debug("d");
  log.info("i");
  log.warn("w");
  log.error("e");
  return testing::internal::GetCapturedStderr();
}

TEST(Logger, WritesItsLevelAndAboveWithTheRank) {
  const std::string text = logged(LogLevel::kWarn, Rank(3));
  EXPECT_NE(text.find("shardlight warning: rank 3: w\n"), std::string::npos) << text;
  EXPECT_NE(text.find("shardlight error: rank 3: e\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("info"), std::string::npos) << text;
  EXPECT_NE(logged(LogLevel::kDebug, std::nullopt).find("debug: d\n"), std::string::npos);
  EXPECT_EQ(logged(LogLevel::kOff, std::nullopt), "");
}

TEST(LogLevel, ComesFromTheEnvironment) {
  EXPECT_EQ(*log_level(Environment()), LogLevel::kWarn);
  EXPECT_EQ(*log_level(Environment(Environment::Variables{{"SHARDLIGHT_LOG", "debug"}})),
            LogLevel::kDebug);
  EXPECT_EQ(
      log_level(Environment(Environment::Variables{{"SHARDLIGHT_LOG", "loud"}})).error().message(),
      "environment variable SHARDLIGHT_LOG: 'loud' is not allowed; allowed: one of: debug, "
      "info, warn, error, off");
}

}  // namespace
}  // namespace shardlight::telemetry
