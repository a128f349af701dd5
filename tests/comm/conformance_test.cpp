// The suite that every transport passes, the same cases for each.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "shardlight/base/environment.h"
#include "tests/comm/training_steps.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::Each;
using testing::IsEmpty;

class Conformance : public testing::TestWithParam<WorldCase> {
 protected:
  static std::int64_t ranks() { return GetParam().ranks; }
  static std::vector<std::string> run(const std::vector<UnitSpec>& units, const RankBody& body) {
    return run_world(GetParam(), units, body);
  }
  static std::vector<UnitSpec> one_unit() { return {unit_of("u", 10, ranks())}; }
};

// Where there is somebody to send to; and where the memory of a small machine is enough.
class ConformanceOfPairs : public Conformance {};
class ConformanceOfLargeUnits : public Conformance {};

std::byte byte_at(std::size_t index, std::int64_t key) {
  return static_cast<std::byte>((index * 31 + index / 1000 + static_cast<std::size_t>(key) * 7) &
                                0xff);
}

std::vector<std::byte> message(std::size_t size, std::int64_t key) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = byte_at(i, key);
  return bytes;
}

TEST_P(Conformance, TrainingStepsGiveTheReferencesBits) {
  const bool few = kSanitized || ranks() > 8;
  const TrainingSteps steps{.steps = few ? 2 : 4, .rounds = few ? 2 : 3};
  EXPECT_THAT(
      run(units_of_all_shapes(ranks()), [&](Transport& transport) { return steps.run(transport); }),
      Each(IsEmpty()));
}

// 64 MiB; less where a sanitizer makes the reference slow.
constexpr std::int64_t kLargeElements = std::int64_t{kSanitized ? 4 : 16} << 20;

TEST_P(ConformanceOfLargeUnits, ALargeUnitGivesTheReferencesBits) {
  std::vector<UnitSpec> units = {unit_of("large", kLargeElements, ranks())};
  units[0].order.kind = ReduceOrderKind::kTree;
  const TrainingSteps steps{.steps = 1, .rounds = 1, .lanes = 1};
  EXPECT_THAT(run(units, [&](Transport& transport) { return steps.run(transport); }),
              Each(IsEmpty()));
}

TEST_P(Conformance, AllReduceAddsByRankAndGivesAllTheSameBits) {
  const auto value = [](std::int64_t rank, std::size_t i, int call) {
    return 0.1 * static_cast<double>(rank + 1) + 1e9 * static_cast<double>((rank + call) % 3) +
           static_cast<double>(i);
  };
  EXPECT_THAT(run(one_unit(),
                  [&](Transport& transport) -> std::string {
                    for (int call = 0; call < 50; ++call) {
                      const std::size_t size = call % 2 == 0 ? 3 : Transport::kMaxAllReduce;
                      std::vector<double> values(size), sum(size), max(size);
                      for (std::size_t i = 0; i < size; ++i) {
                        values[i] = value(transport.rank().value(), i, call);
                        sum[i] = max[i] = value(0, i, call);
                        for (std::int64_t rank = 1; rank < ranks(); ++rank) {
                          sum[i] += value(rank, i, call);
                          max[i] = std::max(max[i], value(rank, i, call));
                        }
                      }
                      std::vector<double> other = values;
                      SHARDLIGHT_SAY(transport.all_reduce(values, Combine::kSum, ample()));
                      SHARDLIGHT_SAY(transport.all_reduce(other, Combine::kMax, ample()));
                      if (values != sum) return "the sum differs";
                      if (other != max) return "the maximum differs";
                    }
                    return "";
                  }),
              Each(IsEmpty()));
}

// Where one rank's value is none; last, where all have one.
TEST_P(Conformance, AMaximumIsNoNumberWhicheverRankHasNone) {
  EXPECT_THAT(run(one_unit(),
                  [&](Transport& transport) -> std::string {
                    const auto rank = static_cast<std::size_t>(transport.rank().value());
                    const auto own = static_cast<double>(rank);
                    std::vector<double> values(static_cast<std::size_t>(ranks()) + 1, own);
                    values[rank] = std::numeric_limits<double>::quiet_NaN();
                    SHARDLIGHT_SAY(transport.all_reduce(values, Combine::kMax, ample()));
                    for (std::int64_t other = 0; other < ranks(); ++other) {
                      if (std::isnan(values[static_cast<std::size_t>(other)])) continue;
                      return fmt::format("rank {}'s NaN is lost", other);
                    }
                    if (values.back() != static_cast<double>(ranks() - 1)) return "no maximum";
                    return "";
                  }),
              Each(IsEmpty()));
}

TEST_P(Conformance, BroadcastReachesAllFromAnyRoot) {
  EXPECT_THAT(run(one_unit(),
                  [&](Transport& transport) -> std::string {
                    for (std::int64_t root = 0; root < ranks(); ++root) {
                      for (const std::size_t size : {0, 1, 1000, 262'144, 1'000'001}) {
                        const auto wanted = message(size, root);
                        auto bytes = transport.rank() == Rank(root)
                                         ? wanted
                                         : std::vector<std::byte>(size, std::byte{1});
                        SHARDLIGHT_SAY(transport.broadcast(bytes, Rank(root), ample()));
                        if (bytes != wanted) return "the broadcast differs";
                      }
                      if (ranks() > 8) root += 20;
                    }
                    return "";
                  }),
              Each(IsEmpty()));
}

TEST_P(Conformance, NobodyPassesABarrierBeforeAllHaveCome) {
  EXPECT_THAT(run(one_unit(),
                  [&](Transport& transport) -> std::string {
                    // A version that is there already is gathered at once, one that is not fails.
                    std::vector<std::byte> whole(40);
                    for (int i = 1; i <= 200; ++i) {
                      SHARDLIGHT_SAY(transport.publish(0, i));
                      SHARDLIGHT_SAY(transport.barrier(ample()));
                      SHARDLIGHT_SAY(transport.gather(0, i, whole, Deadline(Seconds(1e-9))));
                    }
                    return "";
                  }),
              Each(IsEmpty()));
}

TEST_P(ConformanceOfPairs, MessagesArriveWholeAndInOrderBothWays) {
  EXPECT_THAT(run(one_unit(),
                  [&](Transport& transport) -> std::string {
                    const std::int64_t rank = transport.rank().value();
                    const std::int64_t other = rank ^ 1;
                    if (other >= ranks()) return "";
                    const std::vector<std::size_t> sizes = {1, 0, 65'536, 65'537, 1'000'001};
                    for (int turn = 0; turn < 2; ++turn) {
                      const bool sends = (rank < other) == (turn == 0);
                      for (const std::size_t size : sizes) {
                        const auto sent = message(size, turn);
                        std::vector<std::byte> got(size);
                        if (sends) {
                          SHARDLIGHT_SAY(transport.send(sent, Rank(other), ample()));
                        } else {
                          SHARDLIGHT_SAY(transport.receive(got, Rank(other), ample()));
                          if (got != sent) return "a message differs";
                        }
                      }
                    }
                    return "";
                  }),
              Each(IsEmpty()));
}

TEST_P(Conformance, MistakesOfTheCallerAreNamedAndBreakNothing) {
  EXPECT_THAT(
      run(one_unit(),
          [&](Transport& transport) -> std::string {
            std::vector<std::byte> small(3);
            std::vector<double> many(Transport::kMaxAllReduce + 1);
            const Rank beyond(ranks());
            const auto reduce = [&](std::vector<GradientPart> parts,
                                    layout::DType dtype = layout::DType::kFloat32) {
              const Gradient gradient{.parts = parts, .dtype = dtype};
              return transport.reduce(0, 0, true, gradient, ample());
            };
            const auto part = [&](std::int64_t begin, std::int64_t elements) {
              return GradientPart{
                  .begin = Count(begin), .elements = Count(elements), .data = small.data()};
            };
            std::vector<float> few(3);
            std::vector<std::byte> bytes(20);
            const auto of_16_bits = transport.gather_reduced(
                0, 0, {bytes.data(), layout::DType::kFloat16, Count(10)}, ample());
            const auto sum = transport.gather_reduced(0, 0, SumSpan(few), ample());
            const std::vector<std::pair<std::string, Status>> mistakes = {
                {"unit", transport.publish(7, 1)},
                {"target", transport.gather(0, 1, small, ample())},
                {"values", transport.all_reduce(many, Combine::kSum, ample())},
                {"root", transport.broadcast(small, beyond, ample())},
                {"to", transport.send(small, beyond, ample())},
                {"to", transport.send(small, transport.rank(), ample())},
                {"from", transport.receive(small, Rank(-1), ample())},
                {"target", sum ? Status() : tl::unexpected(sum.error())},
                {"target", of_16_bits ? Status() : tl::unexpected(of_16_bits.error())},
                {"gradient.dtype", reduce({part(0, 10)}, layout::DType::kInt64)},
                {"gradient.parts[0].begin", reduce({part(-1, 2)})},
                {"gradient.parts[0].begin", reduce({part(11, 0)})},
                {"gradient.parts[1].begin", reduce({part(0, 3), part(2, 1)})},
                {"gradient.parts[1].begin", reduce({part(5, 1), part(0, 1)})},
                {"gradient.parts[0].elements", reduce({part(3, 8)})},
                {"gradient.parts[0].elements", reduce({part(3, -1)})},
                {"gradient.parts[0].data", reduce({{.begin = Count(0), .elements = Count(1)}})},
            };
            for (const auto& [field, status] : mistakes) {
              if (status || status.error().field() != field) return "not refused: " + field;
            }
            SHARDLIGHT_SAY(transport.barrier(ample()));
            return "";
          }),
      Each(IsEmpty()));
}

constexpr auto kName = [](const auto& world) { return name_of(world.param); };
TEST_P(Conformance, VersionsOnlyGrowAndFrozenUnitsHaveNothingToRelease) {
  std::vector<UnitSpec> units = {unit_of("u", 10, ranks()), unit_of("frozen", 10, ranks())};
  units[1].reduces = false;
  EXPECT_THAT(run(units,
                  [](Transport& transport) -> std::string {
                    std::vector<std::byte> whole(40);
                    SHARDLIGHT_SAY(transport.publish(0, 3));
                    SHARDLIGHT_SAY(transport.publish(0, 2));
                    SHARDLIGHT_SAY(transport.gather(0, 3, whole, ample()));
                    const Status released = transport.release(1, 0);
                    if (released || released.error().field() != "unit") return "was not refused";
                    SHARDLIGHT_SAY(transport.barrier(ample()));
                    return "";
                  }),
              Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Conformance, testing::ValuesIn(worlds({1, 2, 3, 4, 8, 64})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Worlds, ConformanceOfPairs, testing::ValuesIn(worlds({2, 3, 4, 8, 64})),
                         kName);
// The reference of a large unit takes seconds.
std::vector<WorldCase> worlds_of_large_units() {
  const bool full = Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full";
  return full ? worlds({2, 3}) : worlds({2});
}
INSTANTIATE_TEST_SUITE_P(Worlds, ConformanceOfLargeUnits,
                         testing::ValuesIn(worlds_of_large_units()), kName);

}  // namespace
}  // namespace shardlight::comm
