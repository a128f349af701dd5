// A hash of texts that is the same on every rank and in every run, for ranks to compare what they
// think: it tells apart texts that differ by mistake, not by intent. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardlight::comm {

inline constexpr std::uint64_t kNoText = 14695981039346656037ULL;

// FNV-1a, 64 bits, of `text` after what `before` is the hash of.
constexpr std::uint64_t hash_of_text(std::string_view text, std::uint64_t before = kNoText) {
  std::uint64_t hash = before;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

}  // namespace shardlight::comm
