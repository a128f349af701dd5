// Logging for people who look for a fault: lines on stderr with time, level and, where there is
// one, the rank. What a command answers goes to its output, never here. Built on spdlog, which
// stays out of this header. A Logger may be used from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "shardlight/base/environment.h"
#include "shardlight/base/result.h"

namespace shardlight::telemetry {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

// SHARDLIGHT_LOG: debug, info, warn (the default), error or off; anything else is a user error.
Result<LogLevel> log_level(const Environment& environment);

class Logger {
 public:
  explicit Logger(LogLevel level, std::optional<Rank> rank = std::nullopt);
  ~Logger();
  Logger(Logger&&) noexcept;
  Logger& operator=(Logger&&) noexcept;

  void debug(std::string_view text) const;
  void info(std::string_view text) const;
  void warn(std::string_view text) const;
  void error(std::string_view text) const;

 private:
  class Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace shardlight::telemetry
