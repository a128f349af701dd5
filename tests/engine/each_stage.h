// What must hold at every stage alike: a fixture whose tests run at stages 0 to 3, one after
// another, since starting a process with torch takes longer than most of them, and an expectation.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "training.h"

namespace shardlight::engine {

class EachStage : public ::testing::Test {
 protected:
  void each_stage(const std::function<void()>& body) {
    for (stage_ = 0; stage_ <= 3; ++stage_) {
      SCOPED_TRACE(testing::Message() << "stage " << stage_);
      body();
    }
  }

  int stage_ = 0;
};

// The outcome of the run at every stage, and at stage 3 with shared units.
inline void expect_all_stages_equal(Training run, const Outcome& expected) {
  for (int stage = 0; stage <= 3; ++stage) {
    run.options.stage = stage;
    EXPECT_EQ(difference(train(run), expected), "") << "stage " << stage;
  }
  run.options.shared_units = true;
  EXPECT_EQ(difference(train(run), expected), "") << "stage 3 with shared units";
}

// Of orders of addition other than the linear one, on 3 and 4 ranks: `runs` are those of a world.
inline void expect_other_orders_equal_among_stages(
    const std::function<std::vector<Training>(std::int64_t world)>& runs) {
  for (const auto& order : {comm::ReduceOrder{.kind = comm::ReduceOrderKind::kGrouped, .group = 2},
                            comm::ReduceOrder{.kind = comm::ReduceOrderKind::kTree}}) {
    for (const std::int64_t world : {3, 4}) {
      for (Training run : runs(world)) {
        SCOPED_TRACE(testing::Message() << comm::text_of(order) << ", " << world << " ranks");
        const Outcome linear = train(run);
        run.options.order = order;
        const Outcome expected = train(run);
        // Else this would show nothing; of three ranks, both begin as the linear order does.
        if (world == 4) {
          EXPECT_NE(difference(expected, linear), "");
        }
        expect_all_stages_equal(run, expected);
      }
    }
  }
}

}  // namespace shardlight::engine
