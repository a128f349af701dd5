// Ranks that die, stop or leave while the others work: every survivor says so, none hangs.
#include <dirent.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <limits>
#include <set>

#include "shardlight/base/environment.h"
#include "shardlight/base/random.h"
#include "shardlight/comm/shm/shm_world.h"
#include "tests/comm/child_processes.h"
#include "tests/comm/training_steps.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Seconds kSecond{1};
constexpr Seconds kFaultLimit{60};

// What the parent sees of its ranks while they run.
struct Progress {
  std::atomic<int> rounds[8];
  std::atomic<std::int64_t> failed_at[8];  // nanoseconds of the deadline's clock
};

std::int64_t now() { return Deadline::Clock::now().time_since_epoch().count(); }

// Publishes, gathers, reduces and meets until something fails; what then is said.
std::string work(Transport& transport, Progress& progress, Seconds limit) {
  const auto own = static_cast<std::size_t>(transport.rank().value());
  std::vector<std::byte> whole(static_cast<std::size_t>(transport.units()[0].bytes().value()));
  std::vector<float> gradient(static_cast<std::size_t>(transport.units()[0].elements().value()));
  const GradientPart all{.elements = transport.units()[0].elements(), .data = gradient.data()};
  const auto one_round = [&](int round) -> Status {
    if (auto done = transport.publish(0, round + 1); !done) return done;
    if (auto done = transport.gather(0, round + 1, whole, Deadline(limit)); !done) return done;
    if (auto done = transport.reduce(0, round, true, {.parts = {&all, 1}}, Deadline(limit));
        !done) {
      return done;
    }
    if (auto sum = transport.reduced(0, round, Deadline(limit)); !sum) {
      return tl::unexpected(sum.error());
    }
    if (auto done = transport.release(0, round); !done) return done;
    std::vector<double> flags(3);
    if (auto done = transport.all_reduce(flags, Combine::kMax, Deadline(limit)); !done) return done;
    return transport.barrier(Deadline(limit));
  };
  for (int round = 0;; ++round) {
    const Status done = one_round(round);
    if (!done) {
      progress.failed_at[own] = now();
      // It stays so.
      const Status again = transport.barrier(Deadline(limit));
      if (again) return "went on after: " + done.error().message();
      return done.error().message();
    }
    progress.rounds[own] = round + 1;
  }
}

class Workers {
 public:
  Workers(int ranks, Seconds limit, Seconds limit_connect = kFaultLimit)
      : progress_(shared<Progress>()),
        children_(ranks, [this, ranks, limit, limit_connect, job = new_job()](int rank) {
          auto transport = connect_shm({.job = job, .rank = Rank(rank), .world = ranks},
                                       {unit_of("u", 70'000, ranks)}, Deadline(limit_connect));
          if (!transport) return transport.error().message();
          return work(**transport, *progress_, limit);
        }) {}

  // Until `rank` has done that many rounds, and then a moment more.
  void await(int rank, int rounds, std::int64_t nanoseconds = 0) const {
    while (progress_->rounds[rank] < rounds && progress_->failed_at[rank] == 0) ::sched_yield();
    const std::int64_t end = now() + nanoseconds;
    while (now() < end) ::sched_yield();
  }
  Progress& progress() const { return *progress_; }
  ChildProcesses& children() { return children_; }

 private:
  Progress* progress_;
  ChildProcesses children_;
};

void expect_named(const std::string& said, int rank, const std::string& what) {
  EXPECT_THAT(said, StartsWith("rank " + std::to_string(rank) + ", "));
  EXPECT_THAT(said, HasSubstr(what));
  EXPECT_THAT(said, AnyOf(HasSubstr("unit u, gather"), HasSubstr("unit u, reduce"),
                          HasSubstr("unit u, publish"), HasSubstr("unit u, release"),
                          HasSubstr("barrier"), HasSubstr("all-reduce")));
  EXPECT_THAT(said, HasSubstr("no longer usable: the communicator"));
}

TEST(Faults, EverySurvivorNamesARankThatWasKilledWithinASecond) {
  const bool full = Environment::of_process().text("SHARDLIGHT_TEST_TIER") == "full";
  const int seeds = full ? 200 : 30;
  for (int seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const CounterRandom random(static_cast<std::uint64_t>(seed));
    const int ranks = 2 + static_cast<int>(random.bits(0) % 4);
    const int victim = static_cast<int>(random.bits(1) % static_cast<std::uint64_t>(ranks));
    Workers workers(ranks, kFaultLimit);
    workers.await(victim, 1 + static_cast<int>(random.bits(2) % 20),
                  static_cast<std::int64_t>(random.bits(3) % 300'000));
    const std::int64_t killed_at = now();
    ::kill(workers.children().process(victim), SIGKILL);
    const auto ends = workers.children().ends(kFaultLimit);
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_FALSE(ends[rank].straggled) << "rank " << rank << " hung";
      if (rank == victim) continue;
      expect_named(ends[rank].text, rank, "rank " + std::to_string(victim) + " died");
      const std::int64_t took = workers.progress().failed_at[rank] - killed_at;
      EXPECT_LT(Seconds(1e-9 * static_cast<double>(took)), kSecond);
    }
  }
}

TEST(Faults, ARankKilledWhileTheyConnectIsAnErrorWithinTheDeadline) {
  for (int seed = 0; seed < 20 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const CounterRandom random(static_cast<std::uint64_t>(seed), 1);
    const int victim = static_cast<int>(random.bits(0) % 3);
    Workers workers(3, kFaultLimit, Seconds(0.2));
    workers.await(victim, 0, static_cast<std::int64_t>(random.bits(1) % 2'000'000));
    ::kill(workers.children().process(victim), SIGKILL);
    const auto ends = workers.children().ends(kFaultLimit / 4);
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(ends[rank].straggled) << "rank " << rank << " hung";
      if (rank == victim) continue;
      EXPECT_THAT(ends[rank].text, StartsWith("rank "));
    }
  }
}

TEST(Faults, AStoppedRankIsNamedByTheDeadlineAndLearnsOfIt) {
  for (const int victim : {0, 1, 3}) {
    SCOPED_TRACE(testing::Message() << "rank " << victim);
    Workers workers(4, Seconds(0.5));
    workers.await(victim, 3);
    ::kill(workers.children().process(victim), SIGSTOP);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != victim) workers.await(rank, std::numeric_limits<int>::max());
    }
    ::kill(workers.children().process(victim), SIGCONT);
    const auto ends = workers.children().ends(kFaultLimit);
    int tables = 0;
    for (int rank = 0; rank < 4; ++rank) {
      expect_named(ends[rank].text, rank, "rank " + std::to_string(victim) + " did not come");
      if (ends[rank].text.find("rank  state   activity\n   0  ") != std::string::npos) ++tables;
    }
    EXPECT_EQ(tables, 1);
  }
}

std::set<std::string> names_in_dev_shm() {
  std::set<std::string> names;
  DIR* folder = ::opendir("/dev/shm");
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) names.insert(entry->d_name);
  ::closedir(folder);
  return names;
}

TEST(Faults, NothingIsLeftBehind) {
  const auto before = names_in_dev_shm();
  {
    Workers workers(3, kFaultLimit);
    workers.await(2, 2);
    EXPECT_EQ(names_in_dev_shm(), before);
    for (int rank = 0; rank < 3; ++rank) ::kill(workers.children().process(rank), SIGKILL);
    workers.children().ends(kFaultLimit);
  }
  EXPECT_EQ(names_in_dev_shm(), before);
}

}  // namespace
}  // namespace shardlight::comm
