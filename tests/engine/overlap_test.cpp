// Lanes that bring units ahead and reduce while backward goes on: they change no bit.
#include <gtest/gtest.h>

#include "shardlight/engine/use_trace.h"
#include "training.h"

namespace shardlight::engine {
namespace {

Training training(const std::string& model, std::int64_t world, int stage) {
  Training run;
  run.model = model;
  run.world = world;
  run.steps = 4;
  run.options.stage = stage;
  run.options.accumulation = 2;
  run.options.unit_bytes = Bytes(2048);
  run.options.deadline = Seconds(60);
  return run;
}

TEST(Overlap, ChangesNoBit) {
  for (const std::string& model : model_names()) {
    for (int stage = 1; stage <= 3; ++stage) {
      Training run = training(model, 2, stage);
      const Outcome plain = train(run);
      run.options.prefetch_bytes = Bytes(1 << 20);
      run.options.bucket_bytes = Bytes(1 << 14);
      const Outcome ahead = train(run);
      EXPECT_EQ(difference(ahead, plain), "") << model << " stage " << stage;
      EXPECT_EQ(ahead.traffic[0].moved.reduced, plain.traffic[0].moved.reduced);
      EXPECT_EQ(ahead.traffic[0].moved.gathered, ahead.traffic[0].planned.gathered);
    }
  }
}

TEST(Overlap, BringsAheadWhatTheLastMicroStepUsed) {
  Training run = training("mlp", 2, 3);
  run.options.prefetch_bytes = Bytes(1 << 20);
  const TrafficReport traffic = train(run).traffic[0];
  EXPECT_GT(traffic.gathers_ahead, 0);
  EXPECT_EQ(traffic.unforeseen, 0);
}

TEST(Overlap, KeepsTheCap) {
  Training run = training("mlp", 2, 3);
  run.options.prefetch_bytes = Bytes(1 << 20);
  run.options.gathered_bytes = Bytes(1 << 14);
  EXPECT_LE(train(run).traffic[0].gathered_peak, Bytes(1 << 14));
}

TEST(UseTrace, ForeseesTheLastMicroStep) {
  UseTrace trace(3);
  EXPECT_TRUE(trace.use(0));
  EXPECT_FALSE(trace.use(0)) << "twice in a row is one use";
  trace.use(1);
  trace.use(0);
  EXPECT_TRUE(trace.ahead().empty());
  trace.end_micro_step();
  ASSERT_EQ(trace.ahead().size(), 3U);
  trace.use(0);
  EXPECT_EQ(trace.distance(1), 0U);
  EXPECT_EQ(trace.distance(0), 1U);
  EXPECT_EQ(trace.distance(2), std::nullopt);
  trace.use(1);
  trace.use(0);
  EXPECT_EQ(trace.unforeseen(), 0);
  EXPECT_TRUE(trace.ahead().empty());
}

TEST(UseTrace, CountsWhatItDidNotForesee) {
  UseTrace trace(3);
  for (const layout::UnitIndex unit : {0, 1, 2}) trace.use(unit);
  trace.end_micro_step();
  trace.use(0);
  trace.use(2);  // 1 was skipped
  EXPECT_EQ(trace.unforeseen(), 1);
  trace.use(1);  // not foreseen any more
  EXPECT_EQ(trace.unforeseen(), 2);
  trace.end_micro_step();
  for (const layout::UnitIndex unit : {0, 2, 1}) trace.use(unit);
  EXPECT_EQ(trace.unforeseen(), 2);
}

}  // namespace
}  // namespace shardlight::engine
