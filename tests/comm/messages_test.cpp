// Messages of which the two sides think differently, and of nothing: every transport.
#include <gmock/gmock.h>

#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Messages : public testing::TestWithParam<WorldCase> {
 protected:
  static std::vector<std::string> run(const RankBody& body) {
    return run_world(GetParam(), {unit_of("u", 10, GetParam().ranks)}, body);
  }
};

// A packet is 64 KiB: within one, in the first and in the last of several, more and fewer of them.
TEST_P(Messages, OfDifferentSizesAreAnErrorOfBothSidesWithBothSizes) {
  const std::vector<std::pair<std::size_t, std::size_t>> sizes = {
      {10, 12},           {12, 10},           {0, 1},       {1, 0},
      {200'000, 200'001}, {200'001, 200'000}, {5, 300'000}, {300'000, 5}};
  for (const auto& [sent, received] : sizes) {
    const auto said = run([&, sent = sent, received = received](Transport& t) -> std::string {
      constexpr std::byte kOld{0xee};
      if (t.rank() == Rank(1)) {
        // A message of one packet is on its way when send returns; then the next call says it.
        SHARDLIGHT_SAY(t.send(std::vector<std::byte>(sent), Rank(0), ample()));
        SHARDLIGHT_SAY(t.barrier(ample()));
        return "rank 1 was not told";
      }
      if (t.rank() == Rank(0)) {
        std::vector<std::byte> target(received, kOld);
        const Status done = t.receive(target, Rank(1), ample());
        if (done) return "rank 0 was not told";
        if (target != std::vector<std::byte>(received, kOld)) return "something was copied";
        if (t.barrier(ample())) return "the exchange went on";
        return done.error().message();
      }
      SHARDLIGHT_SAY(t.barrier(ample()));
      return "it was not told";
    });
    EXPECT_THAT(said, Each(HasSubstr("rank 1 sends " + std::to_string(sent) +
                                     " bytes, rank 0 receives " + std::to_string(received))));
    EXPECT_THAT(said[0], StartsWith("rank 0, receive: "));
    EXPECT_THAT(said[1], AllOf(StartsWith("rank 1, "), HasSubstr("as rank 0 found in receive")));
  }
}

TEST_P(Messages, OfNothingAreMatchedLikeOthers) {
  const auto said = run([](Transport& t) -> std::string {
    std::vector<std::byte> one(1);
    for (int i = 0; i < 20; ++i) {
      if (t.rank() == Rank(0)) {
        SHARDLIGHT_SAY(t.send({}, Rank(1), ample()));
        one[0] = static_cast<std::byte>(i);
        SHARDLIGHT_SAY(t.send(one, Rank(1), ample()));
      }
      if (t.rank() == Rank(1)) {
        SHARDLIGHT_SAY(t.receive({}, Rank(0), ample()));
        SHARDLIGHT_SAY(t.receive(one, Rank(0), ample()));
        if (one[0] != static_cast<std::byte>(i)) return "a message differs";
      }
    }
    return "";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Messages, testing::ValuesIn(worlds({2, 3})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
