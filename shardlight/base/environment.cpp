#include "shardlight/base/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

namespace shardlight {

Environment Environment::of_process() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::text(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<std::optional<std::int64_t>> Environment::integer(const std::string& name, std::int64_t min,
                                                         std::int64_t max) const {
  const auto given = text(name);
  if (!given) return std::nullopt;
  std::int64_t value = 0;
  const char* end = given->data() + given->size();
  const auto [stop, code] = std::from_chars(given->data(), end, value);
  if (code != std::errc() || stop != end || value < min || value > max) {
    return user_error("environment variable " + name, *given,
                      fmt::format("a whole number from {} to {}", min, max));
  }
  return value;
}

}  // namespace shardlight
