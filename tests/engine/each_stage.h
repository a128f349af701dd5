// A fixture for what must hold at every stage alike: one test runs it at stages 0 to 3, one after
// another, since starting a process with torch takes longer than most of these tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>

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

}  // namespace shardlight::engine
