#include <gmock/gmock.h>

#include "shardlight/comm/decorators/counting.h"
#include "shardlight/comm/decorators/delaying.h"
#include "shardlight/comm/decorators/timing.h"
#include "tests/comm/training_steps.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

TEST(Delaying, ChangesNoBit) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const TrainingSteps steps{.seed = seed, .steps = 2, .rounds = 2};
    const auto said =
        run_threads(3, units_of_all_shapes(3), [&](std::unique_ptr<Transport> transport) {
          Delaying delaying(std::move(transport), seed, Seconds(1e-3));
          return steps.run(delaying);
        });
    EXPECT_THAT(said, testing::Each(testing::IsEmpty()));
  }
}

TEST(Counting, CountsCallsFailuresAndBytesByKind) {
  const auto said = run_threads(
      2, {unit_of("u", 10, 2)}, [](std::unique_ptr<Transport> transport) -> std::string {
        Counting counting(std::move(transport));
        std::vector<std::byte> whole(40);
        SHARDLIGHT_SAY(counting.publish(0, 1));
        for (int i = 0; i < 3; ++i) SHARDLIGHT_SAY(counting.gather(0, 1, whole, ample()));
        if (counting.gather(1, 1, whole, ample())) return "there is no unit 1";
        SHARDLIGHT_SAY(counting.barrier(ample()));
        const OperationCount gathers = counting.count(OperationKind::kGather);
        if (gathers.calls != 4 || gathers.failed != 1) return "calls";
        if (gathers.bytes != Bytes(120)) return "bytes";
        if (counting.count(OperationKind::kPublish).bytes != Bytes(20)) return "published";
        if (counting.count(OperationKind::kBarrier).calls != 1) return "barriers";
        if (counting.count(OperationKind::kReduce).calls != 0) return "reduces";
        return "";
      });
  EXPECT_THAT(said, testing::Each(testing::IsEmpty()));
}

TEST(DurationHistogram, GivesPercentilesToATwentieth) {
  DurationHistogram times;
  EXPECT_EQ(times.percentile(0.5), Seconds(0));
  for (int i = 1; i <= 1000; ++i) times.add(i * 1000);  // 1 to 1000 us
  times.add(0);
  EXPECT_EQ(times.count(), 1001);
  EXPECT_NEAR(times.total().count(), 0.5005, 1e-9);
  EXPECT_NEAR(times.percentile(0.5).count(), 500e-6, 25e-6);
  EXPECT_NEAR(times.percentile(0.99).count(), 990e-6, 50e-6);
  times.add(std::numeric_limits<std::int64_t>::max() / 2);  // beyond the last bin
  EXPECT_GT(times.percentile(1), Seconds(3600));
}

TEST(Timing, TakesTheTimeOfCallsThatWentWell) {
  const auto said = run_threads(
      2, {unit_of("u", 10, 2)}, [](std::unique_ptr<Transport> transport) -> std::string {
        Timing timing(std::move(transport));
        std::vector<std::byte> whole(40);
        SHARDLIGHT_SAY(timing.publish(0, 1));
        for (int i = 0; i < 3; ++i) SHARDLIGHT_SAY(timing.gather(0, 1, whole, ample()));
        if (timing.gather(1, 1, whole, ample())) return "there is no unit 1";
        const DurationHistogram& gathers = timing.times(OperationKind::kGather);
        if (gathers.count() != 3) return "gathers";
        if (gathers.total() <= Seconds(0) || gathers.percentile(0.5) > gathers.total()) {
          return "times";
        }
        return timing.times(OperationKind::kReduce).count() == 0 ? "" : "reduces";
      });
  EXPECT_THAT(said, testing::Each(testing::IsEmpty()));
}

}  // namespace
}  // namespace shardlight::comm
