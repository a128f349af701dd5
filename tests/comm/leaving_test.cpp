// A rank that leaves while the others work: every transport.
#include <gmock/gmock.h>

#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class Leaving : public testing::TestWithParam<WorldCase> {};

TEST_P(Leaving, IsFineUnlessSomebodyStillWaits) {
  const std::int64_t world = GetParam().ranks;
  const auto units = std::vector<UnitSpec>{unit_of("u", 100, world)};
  using Wait = std::function<Status(Transport&)>;
  const std::vector<std::pair<std::string, Wait>> waits = {
      {"unit u, gather",
       [](Transport& t) {
         std::vector<std::byte> whole(400);
         if (auto done = t.publish(0, 1); !done) return done;
         return t.gather(0, 1, whole, ample());
       }},
      {"unit u, reduced",
       [](Transport& t) -> Status {
         if (auto done = t.reduce(0, 0, true, {}, ample()); !done) return done;
         auto sum = t.reduced(0, 0, ample());
         return sum ? Status() : tl::unexpected(sum.error());
       }},
      {"barrier", [](Transport& t) { return t.barrier(ample()); }},
      {"receive",
       [&](Transport& t) {
         std::vector<std::byte> bytes(10);
         return t.receive(bytes, Rank(t.world() - 1), ample());
       }},
  };
  for (const auto& [operation, wait] : waits) {
    const auto said = run_world(GetParam(), units, [&, &wait = wait](Transport& t) -> std::string {
      const std::int64_t rank = t.rank().value();
      // It helps with one barrier, publishes nothing, reduces nothing and goes.
      if (auto done = t.barrier(ample()); !done) return done.error().message();
      if (rank == t.world() - 1) return "left";
      const Status done = wait(t);
      return done ? "was not told" : done.error().message();
    });
    for (std::int64_t rank = 0; rank + 1 < world; ++rank) {
      EXPECT_THAT(said[rank], StartsWith("rank " + std::to_string(rank) + ", "));
      EXPECT_THAT(said[rank], HasSubstr("rank " + std::to_string(world - 1) + " left"));
      EXPECT_THAT(said[rank], AnyOf(HasSubstr(operation), HasSubstr("unit u, reduce")));
    }
    EXPECT_EQ(said[world - 1], "left");
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Leaving, testing::ValuesIn(worlds({3})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
