#include "shardlight/comm/copy.h"

#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shardlight::comm {
namespace {

#ifdef __SSE2__

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kLine = 64;
// Measured: 1 takes a quarter longer, 2 a tenth, 8 as long as 4.
constexpr std::int64_t kPagesAtOnce = 4;
constexpr std::int64_t kGroup = kPagesAtOnce * kPage;

void stream_line(std::byte* target, const std::byte* source) {
  const auto* from = reinterpret_cast<const __m128i*>(source);
  auto* to = reinterpret_cast<__m128i*>(target);
  const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, a);
  _mm_stream_si128(to + 1, b);
  _mm_stream_si128(to + 2, c);
  _mm_stream_si128(to + 3, d);
}

// Several pages side by side keep several of the memory's rows and prefetchers busy.
void stream_group(std::byte* target, const std::byte* source) {
  for (std::int64_t line = 0; line < kPage; line += kLine) {
    for (std::int64_t page = 0; page < kGroup; page += kPage) {
      _mm_prefetch(reinterpret_cast<const char*>(source + kGroup + page + line), _MM_HINT_T0);
    }
    for (std::int64_t page = 0; page < kGroup; page += kPage) {
      stream_line(target + page + line, source + page + line);
    }
  }
}

void copy_past_cache(std::byte* target, const std::byte* source, std::int64_t bytes) {
  // The stores want whole lines.
  const std::int64_t head = -reinterpret_cast<std::intptr_t>(target) & (kLine - 1);
  if (bytes >= head + kGroup) {
    std::memcpy(target, source, static_cast<std::size_t>(head));
    std::int64_t at = head;
    for (; at + kGroup <= bytes; at += kGroup) stream_group(target + at, source + at);
    _mm_sfence();  // whoever is told of these bytes next shall see them
    target += at, source += at, bytes -= at;
  }
  copy_bytes(target, source, bytes);
}

#else

void copy_past_cache(std::byte* target, const std::byte* source, std::int64_t bytes) {
  copy_bytes(target, source, bytes);
}

#endif

}  // namespace

void copy_bytes(void* target, const void* source, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

void copy_of_unit(void* target, const void* source, std::int64_t bytes, std::int64_t unit_bytes) {
  if (unit_bytes < kPastCacheFrom) return copy_bytes(target, source, bytes);
  copy_past_cache(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes);
}

}  // namespace shardlight::comm
