// Whether a sanitizer watches this build: it takes many times as long, and memory of its own that
// cannot be told from what a test measures or limits.
#pragma once

namespace shardlight {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace shardlight
