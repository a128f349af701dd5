// What went wrong, as a value: of which category, where, and what to do about it.
//
// The layers that also compile to WebAssembly (base, layout, plan) never throw: they return
// Result<T> (result.h). The engine and the doors throw the same Error. An Error is immutable
// but for within(), owns its strings, and may be copied between threads.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "shardlight/base/quantity.h"

namespace shardlight {

enum class ErrorCategory {
  kUser,         // a config, file or argument: the user can mend it
  kEnvironment,  // I/O, a lost rank, a time-out: the surroundings failed
  kBug,          // ours
};

// What can no longer be used after an environment error.
enum class Unusable { kOperation, kCommunicator, kJob };

// Where an environment error happened. Empty parts are left out of the message.
struct ErrorSite {
  std::optional<Rank> rank;
  std::string unit;
  std::string operation;
};

class Error : public std::exception {
 public:
  // `field` is the path of what is wrong (`--ranks`, `zero_optimization.stage`), `value` what was
  // found there, `allowed` what may stand there. An empty `value` reads as "is missing".
  static Error user(std::string field, std::string value, std::string allowed);
  static Error environment(ErrorSite site, std::string detail, Unusable unusable);
  static Error bug(std::string detail);

  // The same error seen from one level up: `prefix` is put before the field path, with `joint`
  // between ("config.json: n_embd", "parameters[3].shape").
  Error within(const std::string& prefix, const std::string& joint = ".") &&;

  ErrorCategory category() const { return category_; }
  const std::string& field() const { return field_; }
  const std::string& value() const { return value_; }
  const std::string& allowed() const { return allowed_; }
  const ErrorSite& site() const { return site_; }
  const std::string& detail() const { return detail_; }
  std::optional<Unusable> unusable() const { return unusable_; }

  // One sentence for a person, fit for a terminal (printable.h); no trailing full stop or newline.
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  explicit Error(ErrorCategory category) : category_(category) {}
  void compose();

  ErrorCategory category_;
  std::string field_, value_, allowed_;
  ErrorSite site_;
  std::string detail_;
  std::optional<Unusable> unusable_;
  std::string message_;
};

}  // namespace shardlight
