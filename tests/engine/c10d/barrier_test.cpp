// What the suite shows by a gather that must not wait, of a transport on which every gather does.
#include <gmock/gmock.h>

#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"
#include "tests/engine/c10d/meeting.h"

namespace shardlight::comm {
namespace {

class Barrier : public testing::TestWithParam<WorldCase> {};

TEST_P(Barrier, HoldsEveryRankUntilAllHaveCome) {
  const auto said = run_world(GetParam(), {}, [](Transport& t) -> std::string {
    auto& store = *engine::meeting().store;
    for (int i = 0; i < 50; ++i) {
      const std::string key = "came/" + std::to_string(i);
      store.add(key, 1);
      SHARDLIGHT_SAY(t.barrier(ample()));
      if (store.add(key, 0) != t.world()) return "passed before all had come";
    }
    return "";
  });
  EXPECT_THAT(said, testing::Each(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Barrier, testing::ValuesIn(worlds({1, 2, 3, 4, 8})),
                         [](const auto& world) { return name_of(world.param); });

}  // namespace
}  // namespace shardlight::comm
