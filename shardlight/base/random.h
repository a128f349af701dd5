// Random numbers as a function of (key, counter): any thread or rank can compute the n-th number
// of a stream without the ones before it, and the same n gives the same bits everywhere.
//
// Philox4x32-10 of Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011), by their Random123 library. Not for secrets.
#pragma once

#include <array>
#include <cstdint>

namespace shardlight {

class CounterRandom {
 public:
  using Block = std::array<std::uint32_t, 4>;

  // Streams of one seed are independent of each other (`stream` is half of the counter).
  explicit CounterRandom(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  // The 128 bits at `counter`.
  Block block(std::uint64_t counter) const;
  // 64 of them.
  std::uint64_t bits(std::uint64_t counter) const;
  // A uniform double in [0, 1) with 53 random bits.
  double uniform(std::uint64_t counter) const;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace shardlight
