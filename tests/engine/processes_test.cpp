// The engine on real processes over shared memory: the bits of one plain process at every stage,
// dropout that depends on neither ranks nor stage, and a rank that dies in the middle of backward.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "plain_twin.h"
#include "processes.h"
#include "tests/comm/child_processes.h"

namespace shardlight::engine {
namespace {

constexpr Seconds kLimit{60};

class Processes : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(threads_of_process(), 1) << "no fork is safe any more"; }
};

TEST_F(Processes, TrainWithTheBitsOfOneAtEveryStage) {
  for (const char* model : {"mlp", "experts"}) {
    for (const std::int64_t world : {2, 3}) {
      Training run;
      run.model = model;
      run.world = world;
      run.options.accumulation = 2;
      run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
      run.options.clip_norm = 0.05;
      run.options.unit_bytes = Bytes(1024);
      const Outcome expected = train_plainly(run);
      const auto said = run_processes(world, [&](std::int64_t rank) {
        std::string wrong;
        for (int stage = 0; stage <= 3; ++stage) {
          run.options.stage = stage;
          const std::string job = job_name(run.model + std::to_string(10 * world + stage));
          const Outcome outcome =
              train_rank(run, processes(job, rank, world), model_of_rank(run, rank));
          const auto own = static_cast<std::size_t>(rank);
          if (outcome.losses[own] != expected.losses[own]) wrong += "losses differ; ";
          wrong += difference_of_values(outcome, expected);
        }
        return wrong;
      });
      for (const std::string& text : said) EXPECT_EQ(text, "") << model << ", " << world;
    }
  }
}

// All bits of the values, as text.
std::string digest(const Outcome& outcome) {
  std::uint64_t hash = comm::kNoText;
  for (const auto* values : {&outcome.gradients, &outcome.parameters, &outcome.states}) {
    for (const auto& [name, tensor] : *values) hash = hash_of(tensor, hash);
  }
  return std::to_string(hash);
}

std::vector<std::string> dropout_digests(std::int64_t world, int stage, std::uint64_t seed) {
  Training run;
  run.model = "dropout";
  run.world = world;
  run.options.accumulation = 4 / world;
  run.options.reproducible = true;
  run.options.stage = stage;
  run.options.seed = seed;
  return run_processes(world, [&](std::int64_t rank) {
    const std::string job = job_name("dropout" + std::to_string(10 * world + stage));
    const Ranks ranks = world == 1 ? ranks_as_threads(1).front() : processes(job, rank, world);
    return digest(train_rank(run, ranks, model_of_rank(run, rank)));
  });
}

TEST_F(Processes, DropTheSameWithASeedForAnySplitAndStage) {
  const std::string expected = dropout_digests(1, 0, 5).front();
  ASSERT_EQ(expected.find_first_not_of("0123456789"), std::string::npos) << expected;
  EXPECT_NE(dropout_digests(1, 0, 6).front(), expected);
  for (const std::int64_t world : {1, 2, 4}) {
    for (const int stage : {0, 3}) {
      for (const auto& text : dropout_digests(world, stage, 5)) {
        EXPECT_EQ(text, expected) << world << " ranks, stage " << stage;
      }
    }
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Rank 1 kills itself in the second step's backward, with gradients on both sides of it.
TEST_F(Processes, SurviveARankKilledInBackwardWithAnErrorThatNamesIt) {
  constexpr Seconds kDeadline{20};
  for (int stage = 0; stage <= 3; ++stage) {
    auto* const killed_at = comm::shared<std::atomic<double>>();
    Training run;
    run.world = 3;
    run.options.stage = stage;
    run.options.unit_bytes = Bytes(0);
    run.options.deadline = kDeadline;
    const auto body = [&](int rank) -> std::string {
      const TestModel model = model_of_rank(run, rank);
      int backwards = 0;
      const auto die = [&](const at::Tensor& /*gradient*/) {
        if (++backwards < 2) return;
        killed_at->store(now());
        ::kill(::getpid(), SIGKILL);
      };
      const auto& [name, parameter] = model.parameters.at(2);
      if (rank == 1) parameter.register_hook(die);
      Engine engine = make_engine(
          run, processes(job_name("killed" + std::to_string(stage)), rank, run.world), model);
      try {
        for (std::int64_t step = 0; step < 3; ++step) {
          accumulate(engine, run, model, step);
          engine.step();
        }
      } catch (const std::exception& error) {
        const bool late = now() - killed_at->load() > kDeadline.count();
        // Out of forward it comes as torch's.
        const auto failure = engine.failure();
        return (late ? "late: " : "") + (failure ? failure->message() : error.what());
      }
      return "no error";
    };
    comm::ChildProcesses children(static_cast<int>(run.world), body);
    const auto ends = children.ends(kLimit);
    EXPECT_TRUE(WIFSIGNALED(ends[1].status));
    for (const std::size_t survivor : {0U, 2U}) {
      EXPECT_FALSE(ends[survivor].straggled);
      const std::string& text = ends[survivor].text;
      EXPECT_EQ(text.find("rank " + std::to_string(survivor) + ", "), 0U) << text;
      EXPECT_NE(text.find("rank 1 died"), std::string::npos) << text;
      EXPECT_NE(text.find("no longer usable: the communicator"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace shardlight::engine
