// One call of one rank goes wrong, whichever it is: every other rank says so within its deadline.
#include "shardlight/comm/decorators/faulting.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "shardlight/base/environment.h"
#include "shardlight/comm/decorators/checking.h"
#include "shardlight/comm/shm/shm_world.h"
#include "tests/comm/child_processes.h"
#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Seconds kLostCallLimit{0.2};
constexpr std::int64_t kRanks = 3;
// The longest that a call may take: whoever waits for a rank that itself waits has its own limit.
constexpr Seconds kGenerous{10};

Status messages(Transport& t, Seconds limit) {
  std::vector<std::byte> bytes(100);
  const Rank next((t.rank().value() + 1) % t.world());
  const Rank last((t.rank().value() + t.world() - 1) % t.world());
  SHARDLIGHT_TRY_STATUS(t.send(bytes, next, Deadline(limit)));
  return t.receive(bytes, last, Deadline(limit));
}

// Every kind of call that others wait for.
Status one_round(Transport& t, std::int64_t round, Seconds limit) {
  std::vector<std::byte> whole(40);
  const std::vector<float> gradient(10);
  const GradientPart all{.elements = Count(10), .data = gradient.data()};
  SHARDLIGHT_TRY_STATUS(t.publish(0, round + 1));
  SHARDLIGHT_TRY_STATUS(t.gather(0, round + 1, whole, Deadline(limit)));
  SHARDLIGHT_TRY_STATUS(t.reduce(0, round, true, {.parts = {&all, 1}}, Deadline(limit)));
  const auto sum = t.reduced(0, round, Deadline(limit));
  if (!sum) return Failure(sum.error());
  SHARDLIGHT_TRY_STATUS(t.release(0, round));
  SHARDLIGHT_TRY_STATUS(messages(t, limit));
  std::vector<double> flags(2);
  SHARDLIGHT_TRY_STATUS(t.all_reduce(flags, Combine::kMax, Deadline(limit)));
  SHARDLIGHT_TRY_STATUS(t.broadcast(whole, Rank(round % t.world()), Deadline(limit)));
  return t.barrier(Deadline(limit));
}

// Until something fails; what is then said.
std::string work(Transport& transport, std::int64_t rounds, Seconds limit) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    const auto began = Deadline::Clock::now();
    const Status done = one_round(transport, round, limit);
    if (Deadline::Clock::now() - began > kGenerous) return "took too long";
    if (!done) return done.error().message();
  }
  return "";
}

std::string work_with(std::unique_ptr<Transport> inner, const Fault& fault) {
  Faulting faulting(std::make_unique<Checking>(std::move(inner)), fault);
  const std::string said = work(faulting, 12, kLostCallLimit);
  // The chosen rank, which thinks that all is well, may be told only by its next wait.
  return said.empty() && faulting.struck() ? "struck" : said;
}

class LostCall : public testing::TestWithParam<OperationKind> {};

TEST_P(LostCall, IsAnErrorOfEverySurvivorWithinItsDeadline) {
  const bool full = Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full";
  const std::uint64_t seeds = full ? 10 : 2;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Fault fault =
        seeded_fault({.kind = FaultKind::kLose, .only = GetParam()}, seed, kRanks, 9);
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ", rank " << fault.rank.value() << ", call " << fault.call);
    const auto said = run_threads(
        kRanks, {unit_of("u", 10, kRanks)},
        [&](std::unique_ptr<Transport> inner) { return work_with(std::move(inner), fault); });
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_THAT(said[rank], StartsWith("rank " + std::to_string(rank) + ", "));
      EXPECT_THAT(said[rank], HasSubstr("no longer usable: the communicator"));
      EXPECT_THAT(said[rank], AnyOf(HasSubstr("rank " + std::to_string(fault.rank.value())),
                                    // Who is lost to one that waits itself is named by that one.
                                    HasSubstr("did not come")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LostCall,
                         testing::Values(OperationKind::kPublish, OperationKind::kReduce,
                                         OperationKind::kRelease, OperationKind::kSend,
                                         OperationKind::kAllReduce, OperationKind::kBroadcast,
                                         OperationKind::kBarrier),
                         [](const auto& kind) {
                           std::string name(name_of(kind.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(Faulting, AnErrorIsTheChosenCallsAndEveryLaterOneOfItsRank) {
  const Fault fault{.kind = FaultKind::kFail, .rank = Rank(1), .call = 3};
  const auto said =
      run_threads(2, {unit_of("u", 10, 2)}, [&](std::unique_ptr<Transport> inner) -> std::string {
        Faulting faulting(std::move(inner), fault);
        std::string end = work(faulting, 3, Seconds(60));
        if (faulting.rank() == Rank(1) && faulting.publish(0, 9)) return "went on";
        return end;
      });
  EXPECT_THAT(said[1], StartsWith("rank 1, unit u, reduced: call 3 of this rank fails on purpose"));
  EXPECT_THAT(said[0], HasSubstr("rank 1 left"));
}

TEST(Faulting, ASignalEndsTheProcessAndTheOthersSaySo) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Fault fault = seeded_fault({.kind = FaultKind::kSignal}, seed, kRanks, 60);
    ChildProcesses children(static_cast<int>(kRanks), [&, job = new_job()](int rank) {
      auto inner = connect_shm({.job = job, .rank = Rank(rank), .world = kRanks},
                               {unit_of("u", 10, kRanks)}, ample());
      if (!inner) return inner.error().message();
      Faulting faulting(std::move(*inner), fault);
      return work(faulting, 20, Seconds(60));
    });
    const auto ends = children.ends(Seconds(60));
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_FALSE(ends[rank].straggled);
      if (Rank(rank) == fault.rank) {
        EXPECT_TRUE(WIFSIGNALED(ends[rank].status) && WTERMSIG(ends[rank].status) == SIGKILL);
      } else {
        EXPECT_THAT(ends[rank].text,
                    HasSubstr("rank " + std::to_string(fault.rank.value()) + " died"));
      }
    }
  }
}

}  // namespace
}  // namespace shardlight::comm
