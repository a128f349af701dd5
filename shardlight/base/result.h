// A value or the Error that stands in its place: what every fallible function left of the engine
// returns. Result<T> is tl::expected, so it has the interface of C++23's std::expected.
// Values; a Result may be moved between threads like what it holds.
#pragma once

#include <tl/expected.hpp>
#include <utility>

#include "shardlight/base/error.h"

namespace shardlight {

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

using Failure = tl::unexpected<Error>;

// The error of a failed Result, ready to be returned as a Result of any other type.
template <class T>
Failure failure_of(Result<T>&& result) {
  return Failure(std::move(result).error());
}

inline Failure user_error(std::string field, std::string value, std::string allowed) {
  return Failure(Error::user(std::move(field), std::move(value), std::move(allowed)));
}

}  // namespace shardlight

// SHARDLIGHT_TRY(auto x, f()) leaves the function with f's error, or goes on with its value in x.
#define SHARDLIGHT_JOIN_(a, b) a##b
#define SHARDLIGHT_JOIN(a, b) SHARDLIGHT_JOIN_(a, b)
#define SHARDLIGHT_TRY_AS_(name, target, expression)           \
  auto name = (expression);                                    \
  if (!name) return ::shardlight::failure_of(std::move(name)); \
  target = std::move(*name)
#define SHARDLIGHT_TRY(target, expression) \
  SHARDLIGHT_TRY_AS_(SHARDLIGHT_JOIN(try_result_, __LINE__), target, expression)
// The same for a Status, which carries no value.
#define SHARDLIGHT_TRY_STATUS(expression)                                    \
  do {                                                                       \
    auto try_status = (expression);                                          \
    if (!try_status) return ::shardlight::failure_of(std::move(try_status)); \
  } while (false)
