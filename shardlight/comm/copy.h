// Copies of a unit's bytes. Whoever gathers a unit reads it next, so a copy leaves its lines in the
// cache; a unit that would push out everything else, itself included, is better written past it,
// as glibc's memcpy does when it sees all of it at once. It sees one slice; this is told the whole.
#pragma once

#include <cstdint>

namespace shardlight::comm {

// From this many bytes a unit is written past the cache. Measured (docs/exchange.md): at 64 MiB a
// cached copy is as fast, at 128 MiB it takes half as long again.
inline constexpr std::int64_t kPastCacheFrom = std::int64_t{96} << 20;

// memcpy, also of nothing; the ranges do not overlap.
void copy_bytes(void* target, const void* source, std::int64_t bytes);

// The same of a part of a unit of `unit_bytes`.
void copy_of_unit(void* target, const void* source, std::int64_t bytes, std::int64_t unit_bytes);

}  // namespace shardlight::comm
