#include "shardlight/comm/decorators/checking.h"

#include <gmock/gmock.h>

#include "tests/comm/training_steps.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Calls = std::function<Status(Transport&)>;

// As each rank of three, checked: what its calls end with.
std::vector<std::string> run_checked(const Calls& calls, CheckingOptions options = {}) {
  return run_threads(3, {unit_of("a", 10, 3), unit_of("b", 10, 3)},
                     [&](std::unique_ptr<Transport> inner) -> std::string {
                       Checking checking(std::move(inner), options);
                       SHARDLIGHT_SAY(calls(checking));
                       return "";
                     });
}

Status all_reduce(Transport& transport, std::size_t size, Combine combine = Combine::kSum) {
  std::vector<double> values(size);
  return transport.all_reduce(values, combine, ample());
}

Status broadcast(Transport& transport, std::size_t size, Rank root) {
  std::vector<std::byte> bytes(size);
  return transport.broadcast(bytes, root, ample());
}

TEST(Checking, ChangesNothingOfARunWhoseRanksAgree) {
  const TrainingSteps steps{.steps = 2, .rounds = 2};
  EXPECT_THAT(run_threads(3, units_of_all_shapes(3),
                          [&](std::unique_ptr<Transport> inner) {
                            Checking checking(std::move(inner));
                            return steps.run(checking);
                          }),
              Each(IsEmpty()));
  EXPECT_THAT(run_checked([](Transport& t) -> Status {
                for (int i = 0; i < 20; ++i) {
                  SHARDLIGHT_TRY_STATUS(t.barrier(ample()));
                  SHARDLIGHT_TRY_STATUS(all_reduce(t, 1 + static_cast<std::size_t>(i)));
                  SHARDLIGHT_TRY_STATUS(broadcast(t, 5, Rank(i % 3)));
                }
                return {};
              }),
              Each(IsEmpty()));
}

struct Mismatch {
  Calls ours;  // of ranks 0 and 2
  Calls theirs;
  std::string our_text, their_text;
};

TEST(Checking, AMismatchIsNamedOnEveryRankWithBothSidesCalls) {
  const Calls barrier = [](Transport& t) { return t.barrier(ample()); };
  const std::vector<Mismatch> mismatches = {
      {barrier, [](Transport& t) { return all_reduce(t, 3); }, "barrier",
       "all-reduce (sum) of 24 bytes"},
      {[](Transport& t) { return all_reduce(t, 3); }, [](Transport& t) { return all_reduce(t, 4); },
       "all-reduce (sum) of 24 bytes", "all-reduce (sum) of 32 bytes"},
      {[](Transport& t) { return all_reduce(t, 3); },
       [](Transport& t) { return all_reduce(t, 3, Combine::kMax); }, "all-reduce (sum) of 24 bytes",
       "all-reduce (max) of 24 bytes"},
      {[](Transport& t) { return broadcast(t, 300'000, Rank(0)); },
       [](Transport& t) { return broadcast(t, 3, Rank(0)); }, "broadcast of 300000 bytes, rank 0",
       "broadcast of 3 bytes, rank 0"},
      {[](Transport& t) { return broadcast(t, 8, Rank(0)); },
       [](Transport& t) { return broadcast(t, 8, Rank(1)); }, "broadcast of 8 bytes, rank 0",
       "broadcast of 8 bytes, rank 1"},
  };
  for (const Mismatch& mismatch : mismatches) {
    const auto said = run_checked([&](Transport& t) -> Status {
      SHARDLIGHT_TRY_STATUS(t.barrier(ample()));
      Status done = (t.rank() == Rank(1) ? mismatch.theirs : mismatch.ours)(t);
      // It stays so.
      if (!done && t.barrier(ample())) return Failure(Error::bug("went on"));
      return done;
    });
    EXPECT_THAT(said[0], HasSubstr("this rank calls " + mismatch.our_text +
                                   " as call 2, rank 1 calls " + mismatch.their_text));
    EXPECT_THAT(said[1], HasSubstr("this rank calls " + mismatch.their_text +
                                   " as call 2, rank 0 calls " + mismatch.our_text));
    EXPECT_THAT(said[2], HasSubstr("rank 1 calls " + mismatch.their_text));
    EXPECT_THAT(said, Each(HasSubstr("no longer usable: the communicator")));
  }
}

TEST(Checking, ACallThatOneRankLeavesOutIsFoundWhereTheirCallsPart) {
  const auto said = run_checked([](Transport& t) -> Status {
    SHARDLIGHT_TRY_STATUS(t.barrier(ample()));
    if (t.rank() != Rank(2)) SHARDLIGHT_TRY_STATUS(t.barrier(ample()));
    SHARDLIGHT_TRY_STATUS(t.barrier(ample()));
    return all_reduce(t, 3);
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(said[rank], AllOf(StartsWith("rank " + std::to_string(rank) + ", barrier: "),
                                  HasSubstr("this rank calls barrier as call 3, "
                                            "rank 2 calls all-reduce (sum) of 24 bytes")));
  }
  EXPECT_THAT(said[2], HasSubstr("as call 3, rank 0 calls barrier as call 3"));
}

TEST(Checking, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  const auto said = run_checked([](Transport& t) -> Status {
    if (t.rank() == Rank(2)) return {};
    return t.barrier(Deadline(Seconds(60)));
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(said[rank], AllOf(StartsWith("rank " + std::to_string(rank) + ", barrier: "),
                                  HasSubstr("rank 2 left")));
  }
}

TEST(Checking, MayCompareEveryCall) {
  const auto gathers = [](Transport& t, const std::vector<UnitId>& units) -> Status {
    std::vector<std::byte> whole(40);
    for (const UnitId unit : units) {
      SHARDLIGHT_TRY_STATUS(t.publish(unit, 1));
      SHARDLIGHT_TRY_STATUS(t.gather(unit, 1, whole, ample()));
    }
    return {};
  };
  EXPECT_THAT(run_checked(
                  [&](Transport& t) {
                    return gathers(t, {0, 1});
                  },
                  {.every_call = true}),
              Each(IsEmpty()));
  const auto said = run_checked(
      [&](Transport& t) {
        return gathers(t, t.rank() == Rank(1) ? std::vector<UnitId>{1} : std::vector<UnitId>{0});
      },
      {.every_call = true});
  EXPECT_THAT(said[0], AllOf(StartsWith("rank 0, unit a, publish: "),
                             HasSubstr("rank 1 calls publish of b")));
  EXPECT_THAT(said[1], AllOf(StartsWith("rank 1, unit b, publish: "),
                             HasSubstr("rank 0 calls publish of a")));
}

}  // namespace
}  // namespace shardlight::comm
