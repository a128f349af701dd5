// SHARDLIGHT_CHECK: a property that only a bug of ours can break. A failed check prints the
// condition, both sides and the place, and aborts: nothing is computed from a broken state.
// Not for what a user or the surroundings can get wrong (error.h). Any thread.
#pragma once

#include <string_view>

namespace shardlight {

[[noreturn]] void check_failed(std::string_view condition, long long left, long long right,
                               const char* file, int line);

}  // namespace shardlight

#define SHARDLIGHT_CHECK_(left, op, right)                                                    \
  do {                                                                                        \
    const long long check_left = static_cast<long long>(left);                                \
    const long long check_right = static_cast<long long>(right);                              \
    if (!(check_left op check_right))                                                         \
      ::shardlight::check_failed(#left " " #op " " #right, check_left, check_right, __FILE__, \
                                 __LINE__);                                                   \
  } while (false)
#define SHARDLIGHT_CHECK_EQ(left, right) SHARDLIGHT_CHECK_(left, ==, right)
#define SHARDLIGHT_CHECK_LE(left, right) SHARDLIGHT_CHECK_(left, <=, right)
