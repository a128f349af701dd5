// Many calls in flight on two lanes a rank, each rank in an order of its own: every transport.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "shardlight/base/random.h"
#include "shardlight/comm/lane.h"
#include "tests/comm/reference.h"
#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::Each;
using testing::IsEmpty;

constexpr std::size_t kUnits = 24;
constexpr int kRounds = 2;

Numbers numbers(std::int64_t what, UnitId unit, std::int64_t round, std::int64_t rank) {
  const auto key = static_cast<std::uint64_t>(((what * 100 + round) * 1000 + rank) * 1000);
  return {.key = key + unit};
}

std::vector<UnitSpec> units_of(std::int64_t world) {
  std::vector<UnitSpec> units;
  for (std::size_t i = 0; i < kUnits; ++i) {
    const std::int64_t elements = i % 5 == 0 ? 70'001 : 500 + static_cast<std::int64_t>(i);
    units.push_back(unit_of(fmt::format("u{}", i), elements, world));
    units.back().order.kind = i % 2 == 0 ? ReduceOrderKind::kTree : ReduceOrderKind::kLinear;
    units.back().whole = i % 3 == 0;
  }
  return units;
}

class Flight {
 public:
  explicit Flight(Transport& transport)
      : transport_(transport), gathers_(transport, "gather", 8), reduces_(transport, "reduce", 8) {
    for (const UnitSpec& unit : transport.units()) {
      wholes_.emplace_back(static_cast<std::size_t>(unit.bytes().value()));
      gradients_.emplace_back();
    }
  }

  std::string run() {
    for (int round = 0; round < kRounds; ++round) {
      // More than either lane has room for; waited for from the last one on.
      std::vector<Handle> handles;
      for (UnitId unit = 0; unit < kUnits; ++unit) SHARDLIGHT_SAY(publish(unit, round));
      for (const UnitId unit : order(round)) {
        handles.push_back(gathers_.gather(unit, round + 1, wholes_[unit], ample()));
      }
      for (const UnitId unit : order(kRounds + round)) handles.push_back(reduce(unit, round));
      std::reverse(handles.begin(), handles.end());
      for (const Handle& handle : handles) SHARDLIGHT_SAY(handle.wait(ample()));
      for (UnitId unit = 0; unit < kUnits; ++unit) {
        if (std::string text = check(unit, round); !text.empty()) return text;
      }
      SHARDLIGHT_SAY(transport_.barrier(ample()));
    }
    SHARDLIGHT_SAY(gathers_.drain(ample()));
    SHARDLIGHT_SAY(reduces_.drain(ample()));
    return "";
  }

 private:
  std::int64_t rank() const { return transport_.rank().value(); }

  std::vector<UnitId> order(int purpose) const {
    std::vector<UnitId> units(kUnits);
    const CounterRandom random(static_cast<std::uint64_t>(rank()),
                               static_cast<std::uint64_t>(purpose));
    for (UnitId i = 0; i < kUnits; ++i) {
      units[i] = i;
      std::swap(units[i], units[random.bits(i) % (i + 1)]);
    }
    return units;
  }

  Status publish(UnitId unit, int round) {
    const UnitSpec& spec = transport_.units()[unit];
    const std::int64_t begin = spec.slice_begin(Rank(rank())).value();
    const auto bytes = numbers(0, unit, round, 0).bytes(begin, begin + spec.slices[rank()].value());
    std::copy(bytes.begin(), bytes.end(), transport_.shard(unit).begin());
    return transport_.publish(unit, round + 1);
  }

  Handle reduce(UnitId unit, int round) {
    const Count elements = transport_.units()[unit].elements();
    gradients_[unit] = numbers(1, unit, round, rank()).bytes(0, elements.value());
    const GradientPart all{.elements = elements, .data = gradients_[unit].data()};
    return reduces_.reduce(unit, round, true, {.parts = {&all, 1}}, ample());
  }

  std::string check(UnitId unit, int round) {
    const UnitSpec& spec = transport_.units()[unit];
    const std::int64_t elements = spec.elements().value();
    if (wholes_[unit] != numbers(0, unit, round, 0).bytes(0, elements)) {
      return spec.name + " differs";
    }
    std::vector<float> sum(static_cast<std::size_t>(elements));
    SHARDLIGHT_SAY(transport_.gather_reduced(unit, round, SumSpan(sum), ample()));
    std::vector<std::optional<RankGradient>> gradients;
    for (std::int64_t of = 0; of < transport_.world(); ++of) {
      gradients.push_back(
          RankGradient{.values = numbers(1, unit, round, of).values(0, elements),
                       .present = std::vector<char>(static_cast<std::size_t>(elements), 1)});
    }
    ReferenceSum wanted;
    wanted.add_round(spec.order, gradients);
    if (std::memcmp(sum.data(), wanted.value()->data(), sum.size() * sizeof(float)) != 0) {
      return "the sum of " + spec.name + " differs";
    }
    SHARDLIGHT_SAY(transport_.release(unit, round));
    return "";
  }

  Transport& transport_;
  std::vector<std::vector<std::byte>> wholes_;
  std::vector<std::vector<std::byte>> gradients_;
  Lane gathers_;  // after what their calls point to
  Lane reduces_;
};

class ConformanceOfLanes : public testing::TestWithParam<WorldCase> {};

TEST_P(ConformanceOfLanes, ManyCallsInFlightGiveTheReferencesBits) {
  EXPECT_THAT(run_world(GetParam(), units_of(GetParam().ranks),
                        [](Transport& transport) { return Flight(transport).run(); }),
              Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, ConformanceOfLanes, testing::ValuesIn(worlds({1, 2, 3, 4, 8})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
