#include "shardlight/base/random.h"

#include <Random123/philox.h>

namespace shardlight {
namespace {

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

CounterRandom::Block CounterRandom::block(std::uint64_t counter) const {
  const r123::Philox4x32::ctr_type at = {
      {low(counter), high(counter), low(stream_), high(stream_)}};
  const r123::Philox4x32::key_type key = {{low(seed_), high(seed_)}};
  const auto drawn = r123::Philox4x32()(at, key);
  return {drawn[0], drawn[1], drawn[2], drawn[3]};
}

std::uint64_t CounterRandom::bits(std::uint64_t counter) const {
  const Block drawn = block(counter);
  return static_cast<std::uint64_t>(drawn[1]) << 32 | drawn[0];
}

double CounterRandom::uniform(std::uint64_t counter) const {
  constexpr double kStep = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(bits(counter) >> 11) * kStep;
}

}  // namespace shardlight
