// The engine's door between results, which its parts return, and exceptions, which its users get.
// Internal to the engine.
#pragma once

#include <type_traits>
#include <utility>

#include "shardlight/base/result.h"

namespace shardlight::engine {

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw std::move(result).error();
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace shardlight::engine
