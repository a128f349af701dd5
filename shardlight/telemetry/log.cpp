#include "shardlight/telemetry/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string>
#include <utility>

namespace shardlight::telemetry {
namespace {

constexpr std::array<std::pair<const char*, LogLevel>, 5> kLevels = {{{"debug", LogLevel::kDebug},
                                                                      {"info", LogLevel::kInfo},
                                                                      {"warn", LogLevel::kWarn},
                                                                      {"error", LogLevel::kError},
                                                                      {"off", LogLevel::kOff}}};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

}  // namespace

Result<LogLevel> log_level(const Environment& environment) {
  const auto given = environment.text("SHARDLIGHT_LOG");
  if (!given) return LogLevel::kWarn;
  for (const auto& [name, level] : kLevels) {
    if (*given == name) return level;
  }
  return user_error("environment variable SHARDLIGHT_LOG", *given,
                    "one of: debug, info, warn, error, off");
}

// Each Logger owns its spdlog logger, so nothing is registered globally.
class Logger::Sink {
 public:
  Sink(LogLevel level, std::optional<Rank> rank)
      : logger_("shardlight", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_level(spdlog_level(level));
    const std::string place = rank ? fmt::format("rank {}: ", rank->value()) : "";
    logger_.set_pattern("%H:%M:%S.%e shardlight %l: " + place + "%v");
  }
  void write(spdlog::level::level_enum level, std::string_view text) { logger_.log(level, text); }

 private:
  spdlog::logger logger_;
};

Logger::Logger(LogLevel level, std::optional<Rank> rank)
    : sink_(std::make_unique<Sink>(level, rank)) {}
Logger::~Logger() = default;
Logger::Logger(Logger&&) noexcept = default;
Logger& Logger::operator=(Logger&&) noexcept = default;

void Logger::debug(std::string_view text) const { sink_->write(spdlog::level::debug, text); }
void Logger::info(std::string_view text) const { sink_->write(spdlog::level::info, text); }
void Logger::warn(std::string_view text) const { sink_->write(spdlog::level::warn, text); }
void Logger::error(std::string_view text) const { sink_->write(spdlog::level::err, text); }

}  // namespace shardlight::telemetry
