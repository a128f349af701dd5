#include "shardlight/comm/lane.h"

#include <gmock/gmock.h>

#include <future>

#include "shardlight/comm/threads/threads_world.h"
#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Lanes : public testing::Test {
 protected:
  Lanes() : ranks_(std::move(*make_threads_world({unit_of("u", 10, 2)}, 2))) {}

  Transport& transport() { return *ranks_[0]; }

  // A call that ends when release() is called.
  Handle submit_held(Lane& lane) {
    return lane.submit({.kind = OperationKind::kBarrier}, ample(), [this](Transport&) -> Status {
      begun_.set_value();
      held_.get_future().wait();
      return {};
    });
  }
  void await_begun() { begun_.get_future().wait(); }
  void release() { held_.set_value(); }

 private:
  std::vector<std::unique_ptr<Transport>> ranks_;
  std::promise<void> begun_, held_;
};

Status nothing(Transport& /*transport*/) { return {}; }

TEST_F(Lanes, MakeCallsInOrderOnAThreadOfThatName) {
  std::vector<std::string> made;
  Lane lane(transport(), "prefetch");
  for (const char* name : {"a", "b", "c"}) {
    lane.submit({}, ample(), [&made, name](Transport&) -> Status {
      made.push_back(name + (" on " + lane_of_this_thread()));
      return {};
    });
  }
  ASSERT_TRUE(lane.drain(ample()));
  EXPECT_THAT(made, ElementsAre("a on prefetch", "b on prefetch", "c on prefetch"));
  EXPECT_EQ(lane_of_this_thread(), "");
}

TEST_F(Lanes, AHandleHasTheDescriptorAndIsDoneWhenTheCallHasEnded) {
  Lane lane(transport(), "prefetch");
  const Handle held = submit_held(lane);
  const Handle published = lane.publish(0, 1, ample());
  await_begun();
  EXPECT_FALSE(held.done());
  EXPECT_FALSE(published.done());
  EXPECT_EQ(text_of(published.operation()), "publish of u");
  EXPECT_EQ(published.operation().lane, "prefetch");
  release();
  EXPECT_TRUE(published.wait(ample()));
  EXPECT_TRUE(held.done());
}

TEST_F(Lanes, AWaitThatEndsAtItsDeadlineSaysForWhatAndMayBeRepeated) {
  Lane lane(transport(), "prefetch");
  const Handle held = submit_held(lane);
  const Status early = held.wait(Deadline(Seconds(1e-3)));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().message(),
            "rank 0, barrier: lane prefetch has not done it within 0.001 s; no longer usable: "
            "this operation");
  release();
  EXPECT_TRUE(held.wait(ample()));
}

TEST_F(Lanes, AnErrorStaysWithItsHandleAndTheLane) {
  Lane lane(transport(), "prefetch");
  bool made = false;
  std::vector<std::byte> whole(40);
  const Handle good = lane.publish(0, 1, ample());
  const Handle bad = lane.gather(7, 1, whole, ample());
  const Handle after = lane.submit({}, ample(), [&](Transport&) -> Status {
    made = true;
    return {};
  });
  EXPECT_TRUE(good.wait(ample()));
  const Status failed = bad.wait(ample());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().field(), "unit");
  EXPECT_EQ(after.wait(ample()).error().message(), failed.error().message());
  EXPECT_EQ(lane.publish(0, 2, ample()).wait(ample()).error().message(), failed.error().message());
  EXPECT_EQ(lane.drain(ample()).error().message(), failed.error().message());
  EXPECT_FALSE(made);
}

TEST_F(Lanes, WhoSubmitsTooMuchWaitsForRoomUntilTheDeadline) {
  Lane lane(transport(), "prefetch", 2);
  const Handle held = submit_held(lane);
  await_begun();
  const Handle first = lane.submit({}, ample(), nothing);
  const Handle second = lane.submit({}, ample(), nothing);
  const Handle third =
      lane.submit({.kind = OperationKind::kGather, .unit = "u"}, Deadline(Seconds(1e-3)), nothing);
  const Status refused = third.wait(ample());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              AllOf(StartsWith("rank 0, unit u, gather: "), HasSubstr("no room")));
  std::thread waits([&] { EXPECT_TRUE(lane.submit({}, ample(), nothing).wait(ample())); });
  release();
  waits.join();
  EXPECT_TRUE(first.done() && second.done());
  EXPECT_TRUE(lane.drain(ample()));
}

TEST_F(Lanes, AreNamedInTheTableOfAStuckJob) {
  Lane lane(transport(), "prefetch");
  std::vector<std::byte> whole(40);
  ASSERT_TRUE(lane.publish(0, 1, ample()).wait(ample()));
  const Status late = lane.gather(0, 1, whole, Deadline(Seconds(0.05))).wait(ample());
  ASSERT_FALSE(late);
  EXPECT_THAT(
      late.error().message(),
      AllOf(StartsWith("rank 0, unit u, gather: rank 1 did not come within 0.05 s; it is in "
                       "no call. All ranks:\nrank  state   activity\n"),
            HasSubstr("\n   0  active  in gather of u on lane prefetch for "),
            HasSubstr("s, waiting for rank 1\n   1  active  in no call\n")));
  // Said once.
  const Status again = transport().barrier(ample());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message(), testing::Not(HasSubstr("activity")));
}

TEST_F(Lanes, AnEndedLaneLeavesCallsThatHaveNotBegun) {
  std::optional<Handle> running, left;
  bool made = false;
  {
    Lane lane(transport(), "prefetch");
    std::vector<std::byte> whole(40);
    // Nobody publishes it; the call ends by its own deadline.
    running = lane.gather(0, 1, whole, Deadline(Seconds(0.05)));
    left = lane.submit({.kind = OperationKind::kReduce, .unit = "u"}, ample(),
                       [&](Transport&) -> Status {
                         made = true;
                         return {};
                       });
  }
  EXPECT_TRUE(running->done() && left->done());
  EXPECT_FALSE(made);
  EXPECT_THAT(left->wait(ample()).error().message(),
              AllOf(StartsWith("rank 0, unit u, reduce: "), HasSubstr("lane prefetch has ended")));
}

}  // namespace
}  // namespace shardlight::comm
