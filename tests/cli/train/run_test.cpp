// What stands around a rank of a training run, without one: cores, lines, hashes, the summary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "shardlight/cli/train/cores.h"
#include "shardlight/cli/train/interrupt.h"
#include "shardlight/cli/train/progress.h"
#include "shardlight/cli/train/rank_values.h"
#include "shardlight/cli/train/summary.h"
#include "shardlight/comm/threads/threads_world.h"

namespace shardlight::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Cores, AreDividedAmongTheRanksOfAHost) {
  const std::vector<int> allowed = {0, 2, 4, 6, 8};
  EXPECT_THAT(share_of_cores(allowed, 0, 2, 0).pinned, ElementsAre(0, 2));
  EXPECT_THAT(share_of_cores(allowed, 1, 2, 0).pinned, ElementsAre(4, 6));
  EXPECT_EQ(share_of_cores(allowed, 1, 2, 0).threads, 2);
  EXPECT_EQ(share_of_cores(allowed, 0, 1, 3).threads, 3);
  EXPECT_THAT(share_of_cores(allowed, 6, 8, 0).pinned, ElementsAre(2));  // taking turns
  EXPECT_EQ(share_of_cores({}, 0, 2, 0).threads, 1);
  EXPECT_EQ(share_of_cores(allowed, 1, 2, 0).text(), "2 threads, pinned to cores 4, 6");
  EXPECT_EQ(Cores{}.text(), "1 thread, not pinned");
}

StepLine line_of(std::int64_t step) {
  return {.step = step,
          .loss = 2.25,
          .lr = 0.5,
          .gradient_norm = 3,
          .ranks = {{.loss = 2, .seconds = 0.5, .gathered = Bytes(1000), .total = Bytes(2000)},
                    {.loss = 2.5, .seconds = 0.25, .gathered = Bytes(3000), .total = Bytes(1500)}}};
}

TEST(Progress, PrintsPlainLinesNowAndThen) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.steps = 100, .tokens_per_step = 500, .log_every = 40}, clock);
  for (std::int64_t step = 1; step <= 100; ++step) {
    clock.advance(std::chrono::milliseconds(250));
    ASSERT_TRUE(progress.show(line_of(step)));
  }
  EXPECT_TRUE(progress.finish());
  EXPECT_EQ(out.str(),
            "step 1/100  loss 2.25  2.0k tokens/s  25 s left  gathered 3 kB  total 2 kB\n"
            "step 40/100  loss 2.25  2.0k tokens/s  15 s left  gathered 3 kB  total 2 kB\n"
            "step 80/100  loss 2.25  2.0k tokens/s  5 s left  gathered 3 kB  total 2 kB\n"
            "step 100/100  loss 2.25  2.0k tokens/s  0 s left  gathered 3 kB  total 2 kB\n");
}

TEST(Progress, WritesOverOneLineOnATerminal) {
  ManualClock clock;
  std::ostringstream out;
  Progress progress(out, {.terminal = true, .steps = 2, .tokens_per_step = 5}, clock);
  clock.advance(std::chrono::seconds(1));
  EXPECT_TRUE(progress.show(line_of(1)));
  EXPECT_TRUE(progress.show(line_of(2)));
  EXPECT_TRUE(progress.finish());
  EXPECT_THAT(out.str(), StartsWith("\r\x1b[Kstep 1/2"));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[Kstep 2/2"));
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 1);
}

TEST(Progress, RecordsALineAStepAndRank) {
  std::istringstream lines(jsonl_of(line_of(7), 100));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1]["step"], 7);
  EXPECT_EQ(records[1]["rank"], 1);
  EXPECT_EQ(records[1]["loss"], 2.5);
  EXPECT_EQ(records[1]["loss_mean"], 2.25);
  EXPECT_EQ(records[1]["tokens_per_second"], 200);  // 50 tokens of this rank in 0.25 s
  EXPECT_EQ(records[0]["gathered_bytes"], 1000);
}

TEST(LossText, TellsFloatsApart) {
  const float loss = 2.3456789F;
  EXPECT_NE(loss_text(loss), loss_text(std::nextafter(loss, 3.0F)));
}

// FNV-1a of the eight bytes of 0.0 and of 1.0 after them, by its definition in Python.
TEST(LossHash, IsFnv) {
  LossHash hash;
  EXPECT_EQ(hash.text(), "cbf29ce484222325");
  hash.add(0.0);
  EXPECT_EQ(hash.text(), "a8c7f832281a39c5");
  hash.add(1.0);
  EXPECT_EQ(hash.text(), "85c9d0b95f02e858");
}

TEST(RankValues, AreThoseOfAllRanksOnAllRanks) {
  auto world = *comm::make_threads_world({}, 3);
  std::vector<std::vector<std::vector<double>>> got(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<double> own(200, static_cast<double>(rank));  // more than one small sum takes
      own[0] = -1e300;
      got[rank] = *values_of_ranks(*world[rank], own, comm::Deadline(Seconds(60)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& all : got) {
    ASSERT_EQ(all.size(), 3U);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(all[rank][0], -1e300);
      EXPECT_EQ(all[rank][199], static_cast<double>(rank));
    }
  }
}

TEST(MeanInOrder, HasTheSameBitsForAnySplit) {
  const std::vector<double> losses = {0.1F, 1e9F, 0.3F, -1e9F};
  const double one = mean_in_order({losses}, 4);
  EXPECT_EQ(mean_in_order({{losses[0], losses[1], 99}, {losses[2], losses[3], 99}}, 2), one);
  EXPECT_EQ(mean_in_order({{losses[0]}, {losses[1]}, {losses[2]}, {losses[3]}}, 1), one);
}

TEST(RankEnd, IsTheSameAfterItWasSent) {
  RankEnd end;
  end.tags[2] = {.bytes = {.now = Bytes(5), .peak = Bytes(9)}, .ledger = Bytes(0)};
  end.total = {.now = Bytes(11), .peak = Bytes(12)};
  end.gathered = Bytes(1);
  end.reduced = Bytes(2);
  end.planned_gathered = Bytes(3);
  end.planned_reduced = Bytes(4);
  end.gathered_peak = Bytes(6);
  end.gathers = {.calls = 3, .half = Seconds(1), .most = Seconds(2), .total = Seconds(4)};
  end.reductions = {.calls = 4, .half = Seconds(3), .most = Seconds(4), .total = Seconds(1)};
  end.waited = Seconds(2);
  const RankEnd back = rank_end_of(numbers_of(end));
  EXPECT_EQ(numbers_of(back), numbers_of(end));
  EXPECT_EQ(back.tags[2].ledger, Bytes(0));
  EXPECT_EQ(back.tags[1].ledger, std::nullopt);
  EXPECT_EQ(back.planned_reduced, Bytes(4));
  EXPECT_EQ(back.reductions.calls, 4);
  // Of 5 s together, forward and backward waited for 2.
  EXPECT_DOUBLE_EQ(back.hidden_share(), 0.6);
  EXPECT_EQ(RankEnd().hidden_share(), 0);
}

TEST(Progress, FailsWhereTheOutputIsFull) {
  ManualClock clock;
  std::ofstream full("/dev/full");
  Progress progress(full, {.steps = 1, .tokens_per_step = 5}, clock);
  clock.advance(std::chrono::seconds(1));
  const Status shown = progress.show(line_of(1));
  ASSERT_FALSE(shown);
  EXPECT_THAT(shown.error().message(), HasSubstr("writing the output: it could not be written"));
}

// The signals are the process's, as a terminal's and a launcher's are.
void interrupt_process() { ASSERT_EQ(::kill(::getpid(), SIGINT), 0); }

void wait_until_it_came(const Interrupt& interrupt) {
  while (!interrupt.came()) std::this_thread::yield();
}

TEST(Interrupt, TakesTheFirstSignalAsAWish) {
  const Interrupt interrupt;
  EXPECT_FALSE(interrupt.came());
  interrupt_process();
  wait_until_it_came(interrupt);
}

TEST(Interrupt, TakesOneThatNobodyLookedAtWithIt) {
  {
    const Interrupt interrupt;
    interrupt_process();
  }
  EXPECT_FALSE(Interrupt().came());
}

TEST(InterruptDeathTest, EndsTheProcessAtTheSecondOne) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto hang = [] {
    const Interrupt interrupt;
    interrupt_process();
    wait_until_it_came(interrupt);
    interrupt_process();
    while (true) ::pause();
  };
  EXPECT_EXIT(hang(), testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace shardlight::cli
