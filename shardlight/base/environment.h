// The environment variables of a process, in one place: nothing else in the tree calls getenv.
// A snapshot, so that reading it later is safe beside threads that set variables; tests make their
// own. Values and semantics of each variable belong to who asks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "shardlight/base/result.h"

namespace shardlight {

class Environment {
 public:
  using Variables = std::map<std::string, std::string>;

  Environment() = default;
  explicit Environment(Variables variables) : variables_(std::move(variables)) {}
  static Environment of_process();

  // An unset and an empty variable are the same thing: not given.
  std::optional<std::string> text(const std::string& name) const;

  // A whole number within [min, max], nothing when not given, or a user error naming the variable.
  Result<std::optional<std::int64_t>> integer(const std::string& name, std::int64_t min,
                                              std::int64_t max) const;

 private:
  Variables variables_;
};

}  // namespace shardlight
