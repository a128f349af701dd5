// What must hold at every stage alike: a fixture whose tests run at stages 0 to 3, one after
// another, since starting a process with torch takes longer than most of them, and an expectation.
#pragma once

#include <gtest/gtest.h>

#include <functional>

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

}  // namespace shardlight::engine
