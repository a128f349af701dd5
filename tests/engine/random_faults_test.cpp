// A rank that is killed, stopped or fails anywhere in a run, at every stage: the others raise an
// error with its name within the deadline, and nobody hangs. Where is drawn from the seed, over the
// calls that the engine makes of the exchange, at start, in forward, backward and step, and over
// the user's own code.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <stdexcept>

#include "plain_twin.h"
#include "processes.h"
#include "shardlight/base/environment.h"
#include "shardlight/comm/decorators/faulting.h"
#include "tests/comm/child_processes.h"

namespace shardlight::engine {
namespace {

constexpr std::int64_t kWorld = 3;
constexpr Seconds kDeadline{2};
// As many as a run makes at least: two steps of two micro-steps over six units.
constexpr std::int64_t kCalls = 80;

enum class Trouble : std::uint8_t { kKilled, kStopped, kFails, kThrows };

struct Case {
  std::uint64_t seed;
  Trouble trouble;
  int stage;
  comm::Fault fault;
};

Case case_of(std::uint64_t seed) {
  Case drawn{.seed = seed,
             .trouble = static_cast<Trouble>(seed % 4),
             .stage = static_cast<int>(seed / 4 % 4),
             .fault = {}};
  comm::Fault fault{.kind = comm::FaultKind::kSignal};
  if (drawn.trouble == Trouble::kStopped) fault.signal = SIGSTOP;
  if (drawn.trouble == Trouble::kFails) fault.kind = comm::FaultKind::kFail;
  drawn.fault = comm::seeded_fault(fault, seed, kWorld, kCalls);
  return drawn;
}

Ranks faulty(const Ranks& ranks, const comm::Fault& fault) {
  Ranks faulty = ranks;
  faulty.connect =
      [=](const std::vector<comm::UnitSpec>& units) -> Result<std::unique_ptr<comm::Transport>> {
    SHARDLIGHT_TRY(auto transport, ranks.connect(units));
    return std::make_unique<comm::Faulting>(std::move(transport), fault);
  };
  return faulty;
}

std::string train_until_trouble(const Case& drawn, int rank) {
  Training run;
  run.world = kWorld;
  run.options.stage = drawn.stage;
  run.options.accumulation = 2;
  run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = kDeadline;
  const bool throws = drawn.trouble == Trouble::kThrows && Rank(rank) == drawn.fault.rank;
  Ranks ranks = processes(job_name("faults" + std::to_string(drawn.seed)), rank, kWorld);
  if (drawn.trouble != Trouble::kThrows) ranks = faulty(ranks, drawn.fault);
  const TestModel model = model_of_rank(run, rank);
  try {
    Engine engine = make_engine(run, ranks, model);
    for (std::int64_t step = 0; step < 3; ++step) {
      if (throws && step == drawn.fault.call % 2) throw std::runtime_error("the user's own");
      accumulate(engine, run, model, step);
      engine.step();
    }
  } catch (const Error& error) {
    return error.message();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RandomFaults, AreErrorsOfTheSurvivorsThatNameTheRank) {
  ASSERT_EQ(threads_of_process(), 1) << "no fork is safe any more";
  const bool full = Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full";
  for (std::uint64_t seed = 0; seed < (full ? 200 : 12); ++seed) {
    const Case drawn = case_of(seed);
    const auto victim = static_cast<std::size_t>(drawn.fault.rank.value());
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ", stage " << drawn.stage << ", call " << drawn.fault.call
                 << ", trouble " << static_cast<int>(drawn.trouble));
    comm::ChildProcesses children(kWorld,
                                  [&](int rank) { return train_until_trouble(drawn, rank); });
    // A stopped rank never ends by itself.
    const auto ends = children.ends(kDeadline * 4);
    EXPECT_EQ(WIFSIGNALED(ends[victim].status), drawn.trouble <= Trouble::kStopped);
    for (std::size_t rank = 0; rank < kWorld; ++rank) {
      if (rank == victim) continue;
      EXPECT_FALSE(ends[rank].straggled);
      EXPECT_EQ(ends[rank].status, 0);
      EXPECT_NE(ends[rank].text.find("rank " + std::to_string(victim)), std::string::npos)
          << "rank " << rank << ": " << ends[rank].text;
      EXPECT_NE(ends[rank].text.find("no longer usable: the communicator"), std::string::npos)
          << "rank " << rank << ": " << ends[rank].text;
    }
  }
}

}  // namespace
}  // namespace shardlight::engine
