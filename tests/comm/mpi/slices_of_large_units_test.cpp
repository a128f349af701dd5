// More bytes than an int counts, which is what MPI takes: over MPI alone, and in the full tier.
#include <gmock/gmock.h>

#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

class SlicesOfLargeUnits : public testing::TestWithParam<WorldCase> {};

constexpr std::int64_t kElements = (std::int64_t{1} << 29) + 1000;  // of 4 bytes

float number(std::int64_t index) { return static_cast<float>((index * 7 + index / 65'537) % 9973); }

bool all_are(std::span<const float> found, float factor) {
  for (std::int64_t i = 0; i < kElements; ++i) {
    if (found[static_cast<std::size_t>(i)] != factor * number(i)) return false;
  }
  return true;
}

// Rank 0 owns all of it, rank 1 reads it, gives its gradient and reads the sum.
std::string exchange(Transport& transport) {
  std::vector<float> whole(kElements);
  if (transport.rank() == Rank(0)) {
    auto* shard = reinterpret_cast<float*>(transport.shard(0).data());
    for (std::int64_t i = 0; i < kElements; ++i) shard[i] = number(i);
    SHARDLIGHT_SAY(transport.publish(0, 1));
    SHARDLIGHT_SAY(transport.reduce(0, 0, true, {}, ample()));
    SHARDLIGHT_SAY(transport.barrier(ample()));
    return transport.traffic().gathered == Bytes(0) ? "" : "it gathered nothing";
  }
  SHARDLIGHT_SAY(transport.gather(0, 1, std::as_writable_bytes(std::span(whole)), ample()));
  if (!all_are(whole, 1)) return "what was gathered differs";
  for (float& value : whole) value *= 2;
  const GradientPart all{.elements = Count(kElements), .data = whole.data()};
  SHARDLIGHT_SAY(transport.reduce(0, 0, true, {.parts = {&all, 1}}, ample()));
  std::fill(whole.begin(), whole.end(), 0.0F);
  SHARDLIGHT_SAY(transport.gather_reduced(0, 0, SumSpan(whole), ample()));
  if (!all_are(whole, 2)) return "the sum differs";
  SHARDLIGHT_SAY(transport.barrier(ample()));
  const TrafficCount traffic = transport.traffic();
  const bool counted =
      traffic.gathered == Bytes(8 * kElements) && traffic.reduced == Bytes(4 * kElements);
  return counted ? "" : "the bytes were counted wrongly";
}

TEST_P(SlicesOfLargeUnits, OfMoreThanTwoGibibytesAreExchangedWhole) {
  const UnitSpec unit{.name = "large", .slices = {Count(kElements), Count(0)}};
  EXPECT_THAT(run_world(GetParam(), {unit}, exchange), testing::Each(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, SlicesOfLargeUnits, testing::ValuesIn(worlds({2})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
