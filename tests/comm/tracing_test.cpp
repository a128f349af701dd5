#include "shardlight/comm/decorators/tracing.h"

#include <gmock/gmock.h>

#include <thread>

#include "shardlight/comm/threads/threads_world.h"
#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using std::chrono::milliseconds;

// The n-th call takes that long by a clock that stands still otherwise.
class Taking final : public Decorator {
 public:
  Taking(std::unique_ptr<Transport> inner, ManualClock& clock, std::vector<milliseconds> times)
      : Decorator(std::move(inner)), clock_(clock), times_(std::move(times)) {}

 protected:
  Status around(const Operation& /*operation*/, const Make& make) override {
    clock_.advance(times_[calls_++ % times_.size()]);
    return make();
  }

 private:
  ManualClock& clock_;
  std::vector<milliseconds> times_;
  std::size_t calls_ = 0;
};

std::unique_ptr<Transport> one_rank() {
  auto made = make_threads_world({unit_of("u", 10, 1)}, 1);
  return std::move(made->front());
}

TEST(Tracing, QuantilesAreThoseOfTheCallsOfAKind) {
  ManualClock clock;
  std::vector<milliseconds> times;
  for (int i = 0; i < 200; ++i) times.emplace_back((i * 77) % 200 + 1);  // 1 … 200, shuffled
  Tracing tracing(std::make_unique<Taking>(one_rank(), clock, times), clock);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(tracing.barrier(ample()));
  const OperationSeconds barriers = tracing.seconds(OperationKind::kBarrier);
  EXPECT_EQ(barriers.calls, 200);
  EXPECT_DOUBLE_EQ(barriers.p50.count(), 0.100);
  EXPECT_DOUBLE_EQ(barriers.p99.count(), 0.198);
  EXPECT_DOUBLE_EQ(barriers.longest.count(), 0.200);
  EXPECT_NEAR(barriers.total.count(), 20.1, 1e-9);
  EXPECT_EQ(tracing.seconds(OperationKind::kGather).calls, 0);
}

TEST(Tracing, ASpanHasTheDescriptorTheLaneAndBothTimes) {
  ManualClock clock;
  Tracing tracing(
      std::make_unique<Taking>(one_rank(), clock, std::vector{milliseconds(5), milliseconds(7)}),
      clock);
  clock.advance(milliseconds(100));
  std::vector<std::byte> whole(40);
  ASSERT_TRUE(tracing.publish(0, 1));
  {
    const OnLane lane("prefetch");
    ASSERT_TRUE(tracing.gather(0, 1, whole, ample()));
    std::thread([&] {
      const OnLane other("reduce");
      EXPECT_FALSE(tracing.gather(1, 1, whole, ample()));
    }).join();
  }
  ASSERT_TRUE(tracing.barrier(ample()));
  const auto spans = tracing.spans();
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].operation.kind, OperationKind::kPublish);
  EXPECT_EQ(spans[0].operation.lane, "");
  EXPECT_EQ(spans[0].begin, milliseconds(100));
  EXPECT_EQ(spans[0].end, milliseconds(105));
  EXPECT_EQ(spans[1].operation.unit, "u");
  EXPECT_EQ(spans[1].operation.bytes, Bytes(40));
  EXPECT_EQ(spans[1].operation.lane, "prefetch");
  EXPECT_EQ(spans[1].begin, milliseconds(105));
  EXPECT_EQ(spans[1].end, milliseconds(112));
  EXPECT_TRUE(spans[1].done);
  EXPECT_EQ(spans[2].operation.lane, "reduce");
  EXPECT_FALSE(spans[2].done);
  EXPECT_EQ(spans[3].operation.lane, "");
}

TEST(Tracing, KeepsNoMoreSpansThanItMay) {
  const ManualClock clock;
  Tracing tracing(one_rank(), clock, 3);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(tracing.barrier(ample()));
  EXPECT_EQ(tracing.spans().size(), 3U);
  EXPECT_EQ(tracing.spans_left_out(), 2);
}

}  // namespace
}  // namespace shardlight::comm
