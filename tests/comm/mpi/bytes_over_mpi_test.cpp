// What gathers and reduces hand to MPI: what goes between hosts, and within one nothing but words;
// all of it where memory is not mapped. Over MPI alone.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "shardlight/base/environment.h"
#include "shardlight/comm/mpi/mpi_transport.h"
#include "shardlight/comm/place.h"
#include "tests/comm/mpi/mpi_worlds.h"

namespace shardlight::comm {
namespace {

using testing::Each;
using testing::IsEmpty;

constexpr std::int64_t kSliceBytes = std::int64_t{1} << 20;
constexpr int kGathers = 4;
// Of questions, answers and what ranks say of themselves meanwhile.
constexpr std::int64_t kWords = kSliceBytes / 2;

class BytesOverMpi : public testing::TestWithParam<WorldCase> {
 protected:
  static std::int64_t ranks() { return GetParam().ranks; }
  static std::vector<UnitSpec> units(bool whole) {
    const std::vector<Count> slices(static_cast<std::size_t>(ranks()), Count(kSliceBytes / 4));
    return {{.name = "u", .slices = slices, .reduces = false, .whole = whole}};
  }
};

float value(std::int64_t rank, int version) { return static_cast<float>(1000 * rank + version); }

// Each version is published while others may wait for it, and read by all before the next.
std::string gather_all(Transport& transport, std::span<std::byte> target) {
  auto* shard = reinterpret_cast<float*>(transport.shard(0).data());
  const auto* found = reinterpret_cast<const float*>(target.data());
  for (int version = 1; version <= kGathers; ++version) {
    std::fill_n(shard, kSliceBytes / 4, value(transport.rank().value(), version));
    SHARDLIGHT_SAY(transport.publish(0, version));
    SHARDLIGHT_SAY(transport.gather(0, version, target, ample()));
    for (std::int64_t rank = 0; rank < transport.world(); ++rank) {
      const float* slice = found + rank * kSliceBytes / 4;
      const auto is = [&](float element) { return element == value(rank, version); };
      if (!std::all_of(slice, slice + kSliceBytes / 4, is)) {
        return fmt::format("version {} of rank {}'s slice differs", version, rank);
      }
    }
    SHARDLIGHT_SAY(transport.barrier(ample()));
  }
  return "";
}

// Of the ranks that read this one's slice, those it goes to through MPI.
std::int64_t readers_by_message() {
  const auto place = place_of(Environment::of_process());
  if (!place) return -1;
  return place->world - (maps_host() ? place->world_local : 1);
}

std::string bytes_are_right(Transport& transport, std::span<std::byte> target) {
  const auto& over_mpi = dynamic_cast<const MpiTransport&>(transport);
  SHARDLIGHT_SAY(transport.barrier(ample()));
  const Bytes before = over_mpi.bytes_sent();
  if (const std::string wrong = gather_all(transport, target); !wrong.empty()) return wrong;
  const std::int64_t sent = (over_mpi.bytes_sent() - before).value();
  const std::int64_t wanted = kGathers * kSliceBytes * readers_by_message();
  if (sent < wanted || sent > wanted + wanted / 50 + kWords) {
    return fmt::format("{} bytes were handed to MPI, of slices {}", sent, wanted);
  }
  const std::int64_t counted = transport.traffic().gathered.value();
  const std::int64_t formula = kGathers * kSliceBytes * (transport.world() - 1);
  return counted == formula ? "" : fmt::format("{} bytes counted, not {}", counted, formula);
}

TEST_P(BytesOverMpi, OfGathersAreThoseOfOtherHosts) {
  EXPECT_THAT(run_world(GetParam(), units(false),
                        [](Transport& transport) {
                          const Bytes bytes = transport.units()[0].bytes();
                          std::vector<std::byte> all(static_cast<std::size_t>(bytes.value()));
                          return bytes_are_right(transport, all);
                        }),
              Each(IsEmpty()));
}

TEST_P(BytesOverMpi, OfGathersIntoWholeUnitsToo) {
  EXPECT_THAT(run_world(GetParam(), units(true),
                        [](Transport& transport) {
                          return bytes_are_right(transport, transport.whole(0));
                        }),
              Each(IsEmpty()));
}

// Rank 0 publishes and goes at once; the others read it when it has gone or is going.
TEST_P(BytesOverMpi, AreNotNeededOfARankThatHasLeft) {
  EXPECT_THAT(run_world(GetParam(), units(false),
                        [](Transport& transport) -> std::string {
                          const std::int64_t rank = transport.rank().value();
                          auto* shard = reinterpret_cast<float*>(transport.shard(0).data());
                          std::fill_n(shard, kSliceBytes / 4, value(rank, 1));
                          SHARDLIGHT_SAY(transport.publish(0, 1));
                          if (rank == 0) return "";
                          const auto elements = transport.units()[0].elements().value();
                          std::vector<float> all(static_cast<std::size_t>(elements));
                          for (int i = 0; i < 2; ++i) {
                            std::fill(all.begin(), all.end(), -1.0F);
                            SHARDLIGHT_SAY(transport.gather(
                                0, 1, std::as_writable_bytes(std::span(all)), ample()));
                            for (std::size_t at = 0; at < all.size(); at += 1000) {
                              const auto owner = static_cast<std::int64_t>(at) / (kSliceBytes / 4);
                              if (all[at] != value(owner, 1)) return "a slice differs";
                            }
                          }
                          return "";
                        }),
              Each(IsEmpty()));
}

// Each slice of the gradient fits into the slots that its owner may fill before a turn.
std::string reduces_are_right(Transport& transport) {
  constexpr int kRounds = 4;
  const auto& over_mpi = dynamic_cast<const MpiTransport&>(transport);
  const UnitSpec& unit = transport.units()[0];
  const std::vector<float> gradient(static_cast<std::size_t>(unit.elements().value()), 1.0F);
  const GradientPart all{.elements = unit.elements(), .data = gradient.data()};
  SHARDLIGHT_SAY(transport.barrier(ample()));
  const Bytes before = over_mpi.bytes_sent();
  for (int round = 0; round < kRounds; ++round) {
    SHARDLIGHT_SAY(transport.reduce(0, round, round == 0, {.parts = {&all, 1}}, ample()));
    const auto sum = transport.reduced(0, round, ample());
    if (!sum) return sum.error().message();
    const auto wanted = static_cast<float>(transport.world() * (round + 1));
    const auto is = [&](float element) { return element == wanted; };
    if (!std::ranges::all_of(sum->floats(), is)) return fmt::format("sum {} differs", round);
    SHARDLIGHT_SAY(transport.barrier(ample()));
  }
  const std::int64_t sent = (over_mpi.bytes_sent() - before).value();
  const std::int64_t slice = unit.bytes().value() / transport.world();
  const std::int64_t wanted = kRounds * slice * readers_by_message();
  if (sent < wanted || sent > wanted + wanted / 50 + kWords) {
    return fmt::format("{} bytes were handed to MPI, of gradients {}", sent, wanted);
  }
  const std::int64_t counted = transport.traffic().reduced.value();
  const std::int64_t formula = kRounds * slice * (transport.world() - 1);
  return counted == formula ? "" : fmt::format("{} bytes counted, not {}", counted, formula);
}

TEST_P(BytesOverMpi, OfReducesAreThoseOfOtherHosts) {
  const std::vector<Count> slices(static_cast<std::size_t>(ranks()), Count(kSliceBytes / 8));
  EXPECT_THAT(run_world(GetParam(), {{.name = "u", .slices = slices}}, reduces_are_right),
              Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, BytesOverMpi, testing::ValuesIn(worlds({1, 2, 3, 4, 8})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
