// Ranks under mpirun that die, stop, differ or do not come: every survivor says so, none hangs.
// SHARDLIGHT_MPIRUN and SHARDLIGHT_FAULT_RANK name the programs.
#include <gmock/gmock.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

struct Job {
  int status = 0;
  double seconds = 0;
  std::string output;
  std::map<int, std::string> said;  // by rank, what follows ": "
  std::map<int, double> after;      // seconds
};

Job run(const std::string& options, const std::string& program) {
  const std::string command = std::string("timeout -k 1 50 ") + SHARDLIGHT_MPIRUN + " " + options +
                              " " + SHARDLIGHT_FAULT_RANK + " " + program + " 2>&1";
  Job job;
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return job;
  std::array<char, 4096> part{};
  while (::fgets(part.data(), part.size(), pipe) != nullptr) job.output += part.data();
  job.status = WEXITSTATUS(::pclose(pipe));
  job.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::istringstream lines(job.output);
  for (std::string line; std::getline(lines, line);) {
    int rank = 0;
    double seconds = 0;
    if (::sscanf(line.c_str(), "rank %d after %lf s: ", &rank, &seconds) != 2) continue;
    job.said[rank] = line.substr(line.find(": ") + 2);
    job.after[rank] = seconds;
  }
  return job;
}

constexpr double kSlow = 10;  // where it should be a second, on a busy machine

TEST(MpiFaults, SurvivorsNameARankThatWasKilledWhereMpirunLetsThemLive) {
  const Job job = run("--enable-recovery -n 4", "kill 4");
  ASSERT_THAT(job.said, SizeIs(3)) << job.output;
  for (const auto& [rank, text] : job.said) {
    EXPECT_THAT(text, StartsWith("rank " + std::to_string(rank) + ", "));
    EXPECT_THAT(text, HasSubstr("rank 1 was not heard of for 1."));
    EXPECT_THAT(text, HasSubstr("no longer usable: the communicator"));
    EXPECT_LT(job.after.at(rank), kSlow);
  }
  EXPECT_LT(job.seconds, 2 * kSlow);
}

TEST(MpiFaults, MpirunEndsTheJobWithADeadRankOtherwise) {
  const Job job = run("-n 3", "kill 3");
  EXPECT_NE(job.status, 0) << job.output;
  EXPECT_THAT(job.output, HasSubstr("signal 9"));
  EXPECT_LT(job.seconds, 2 * kSlow);
}

TEST(MpiFaults, AStoppedRankIsNamedByTheDeadlineAndLearnsOfIt) {
  const Job job = run("-n 4", "stop 4");
  ASSERT_THAT(job.said, SizeIs(4)) << job.output;
  for (const auto& [rank, text] : job.said) {
    EXPECT_THAT(text, StartsWith("rank " + std::to_string(rank) + ", "));
    EXPECT_THAT(text, HasSubstr("rank 1 did not come"));
  }
  EXPECT_EQ(job.status, 0);
  EXPECT_LT(job.seconds, 2 * kSlow);
}

TEST(MpiFaults, DifferentUnitsAreNamedByAllRanks) {
  const Job job = run("-n 2", std::string("differ 3 u : --oversubscribe -n 1 ") +
                                  SHARDLIGHT_FAULT_RANK + " differ 3 v");
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_THAT(job.output, HasSubstr("rank " + rank + ", connect: rank 2 has units of"));
  }
  EXPECT_EQ(job.status, 0) << job.output;
}

TEST(MpiFaults, WhoDoesNotComeIsNamedAtTheDeadline) {
  const Job job = run("-n 3", "miss 3");
  ASSERT_THAT(job.said, SizeIs(2)) << job.output;
  for (const auto& [rank, text] : job.said) {
    EXPECT_THAT(text, AllOf(StartsWith("rank " + std::to_string(rank) + ", connect: "),
                            HasSubstr("rank 1 did not come")));
  }
  EXPECT_EQ(job.status, 0) << job.output;
}

TEST(MpiFaults, RanksThatCannotMapEachOthersMemorySaySoAndGoOn) {
  const std::string apart = "unshare --pid --fork --kill-child ";
  if (::geteuid() != 0 || std::system((apart + "true 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "another process namespace needs root";
  }
  // Open MPI's own reading of another process takes process numbers too.
  const Job job = run(
      "--mca btl_vader_single_copy_mechanism none -n 1",
      std::string("round 2 : --oversubscribe -n 1 ") + apart + SHARDLIGHT_FAULT_RANK + " round 2");
  EXPECT_THAT(job.said, ElementsAre(Pair(0, "went on"), Pair(1, "went on"))) << job.output;
  for (const std::string other : {"0", "1"}) {
    EXPECT_THAT(job.output, HasSubstr("read by messages, as their memory cannot be mapped: rank " +
                                      other + " (it is in another process namespace)"));
  }
  const Job together = run("-n 2", "round 2");
  EXPECT_THAT(together.said, SizeIs(2));
  EXPECT_THAT(together.output, Not(HasSubstr("cannot be mapped")));
}

TEST(MpiFaults, AWaitBurnsNoCore) {
  const Job job = run("-n 2", "wait 2");
  ASSERT_THAT(job.said, SizeIs(2)) << job.output;
  EXPECT_EQ(job.said.at(0), "waited");
  // CPU seconds of a wait of one second: a nap of 200 us and a look at what has come, in turn.
  EXPECT_LT(job.after.at(0), 0.1);
}

}  // namespace
