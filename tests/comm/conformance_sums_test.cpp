// When a sum may be read and when it is overwritten: every transport.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::Each;
using testing::IsEmpty;

class Sums : public testing::TestWithParam<WorldCase> {
 protected:
  static std::vector<std::string> run(const std::vector<UnitSpec>& units, const RankBody& body) {
    return run_world(GetParam(), units, body);
  }
};

Status add(Transport& transport, std::int64_t round, float value) {
  const std::vector<float> gradient(
      static_cast<std::size_t>(transport.units()[0].elements().value()), value);
  const GradientPart all{.elements = transport.units()[0].elements(), .data = gradient.data()};
  return transport.reduce(0, round, true, {.parts = {&all, 1}}, ample());
}

// Ranks that own nothing of the unit read its sum at their leisure, while the others hurry on.
TEST_P(Sums, StayUntilEveryRankHasReleasedThem) {
  const std::int64_t world = GetParam().ranks;
  constexpr std::int64_t kElements = 70'000;
  UnitSpec unit{.name = "u", .slices = std::vector<Count>(static_cast<std::size_t>(world))};
  unit.slices[0] = Count(kElements);
  const auto said = run({unit}, [&](Transport& t) -> std::string {
    std::vector<float> first(kElements), again(kElements);
    float ranks_sum = 0;
    for (std::int64_t rank = 0; rank < world; ++rank) ranks_sum += static_cast<float>(rank);
    for (std::int64_t round = 0; round < 10; ++round) {
      const auto base = static_cast<float>(100 * round);
      SHARDLIGHT_SAY(add(t, round, base + static_cast<float>(t.rank().value())));
      const float wanted = static_cast<float>(world) * base + ranks_sum;
      SHARDLIGHT_SAY(t.gather_reduced(0, round, SumSpan(first), ample()));
      // A rank that has released it may be at its next reduce by now.
      SHARDLIGHT_SAY(t.gather_reduced(0, round, SumSpan(again), ample()));
      if (first != std::vector<float>(kElements, wanted) || again != first) {
        return "the sum of round " + std::to_string(round) + " differs";
      }
      SHARDLIGHT_SAY(t.release(0, round));
    }
    return "";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_P(Sums, AreOverwrittenOnlyWhenEveryRankHasReleasedThem) {
  const std::int64_t world = GetParam().ranks;
  const auto said = run({unit_of("u", 10, world)}, [&](Transport& t) -> std::string {
    std::vector<float> sum(10);
    SHARDLIGHT_SAY(add(t, 0, 1.0F));
    const bool last = t.rank() == Rank(world - 1);
    if (!last) SHARDLIGHT_SAY(t.release(0, 0));
    SHARDLIGHT_SAY(t.barrier(ample()));
    if (!last) {
      SHARDLIGHT_SAY(add(t, 1, 2.0F));
    } else {
      // The others are in their second round, as far as they come.
      for (int i = 0; i < 100; ++i) {
        SHARDLIGHT_SAY(t.gather_reduced(0, 0, SumSpan(sum), ample()));
        if (sum != std::vector<float>(10, static_cast<float>(world))) return "overwritten";
      }
      SHARDLIGHT_SAY(t.release(0, 0));
      SHARDLIGHT_SAY(add(t, 1, 2.0F));
    }
    SHARDLIGHT_SAY(t.gather_reduced(0, 1, SumSpan(sum), ample()));
    return sum == std::vector<float>(10, static_cast<float>(2 * world)) ? "" : "the next sum";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_P(Sums, AreRefusedToWhoHasReleasedThem) {
  const auto said = run({unit_of("u", 10, GetParam().ranks)}, [](Transport& t) -> std::string {
    std::vector<float> sum(10);
    SHARDLIGHT_SAY(add(t, 0, 1.0F));
    SHARDLIGHT_SAY(t.reduced(0, 0, ample()));
    SHARDLIGHT_SAY(t.release(0, 0));
    const auto slice = t.reduced(0, 0, ample());
    if (slice || slice.error().field() != "round") return "its slice was not refused";
    const auto whole = t.gather_reduced(0, 0, SumSpan(sum), ample());
    if (whole || whole.error().field() != "round") return "the whole sum was not refused";
    return "";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

// Whoever has no gradient leaves elements alone; whoever has one without them starts them at 0.
TEST_P(Sums, OfElementsThatNobodyHasAreZero) {
  const std::int64_t world = GetParam().ranks;
  const auto said = run({unit_of("u", 10, world)}, [&](Transport& t) -> std::string {
    const std::vector<float> gradient = {-0.0F, 3.0F};
    const GradientPart part{.begin = Count(4), .elements = Count(2), .data = gradient.data()};
    const bool passes = t.rank() != Rank(world - 1);
    const Gradient given = passes ? Gradient{} : Gradient{.parts = {&part, 1}};
    SHARDLIGHT_SAY(t.reduce(0, 0, true, given, ample()));
    std::vector<float> sum(10, 1.0F);
    SHARDLIGHT_SAY(t.gather_reduced(0, 0, SumSpan(sum), ample()));
    std::vector<float> wanted(10);
    wanted[5] = 3.0F;
    if (sum != wanted) return "the sum differs";
    if (!std::signbit(sum[4])) return "a lone -0 became 0";
    return std::signbit(sum[0]) ? "a gap is -0" : "";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Sums, testing::ValuesIn(worlds({1, 2, 3, 4, 8})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
