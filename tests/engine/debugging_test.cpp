// Poisoned memory and delays in every call of the exchange change no bit; replicas that differ and
// a child of fork are told.
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "each_stage.h"
#include "plain_twin.h"
#include "tests/comm/child_processes.h"

namespace shardlight::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Debug : public EachStage {};

TEST_F(Debug, PoisonAndDelaysChangeNoBit) {
  for (const char* name : {"tied", "experts", "mixed"}) {
    Training run;
    run.model = name;
    run.world = 3;
    run.steps = 2;
    run.options.accumulation = 2;
    run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
    run.options.clip_norm = 0.05;
    run.options.unit_bytes = Bytes(0);
    run.options.prefetch_bytes = Bytes(4096);
    run.options.bucket_bytes = Bytes(4096);
    const Outcome expected = train_plainly(run);
    run.options.debug = {.poison = true, .delay_seed = 7, .delay_most = Seconds(0.0005)};
    each_stage([&] {
      run.options.stage = stage_;
      EXPECT_EQ(difference(train(run), expected), "") << name;
    });
  }
}

// Stage 0 alone steps everything everywhere.
TEST_F(Debug, ReplicasThatDifferAreToldAfterTheFirstSteps) {
  Training run;
  run.world = 2;
  run.options.unit_bytes = Bytes(0);
  on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
    Engine engine = make_engine(run, ranks, model);
    engine.backward(model.loss(0, ranks.rank.value()));
    auto* const values = static_cast<float*>(model.parameters[0].second.data_ptr());
    if (ranks.rank == Rank(1)) values[0] += 1;  // as a fault of memory would
    try {
      engine.step();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), AllOf(HasSubstr("unit"), HasSubstr("on some ranks")));
    }
  });
}

TEST_F(Debug, AChildOfForkIsToldThatTheEngineIsItsParents) {
  each_stage([&] {
    Training run;
    run.options.stage = stage_;
    const auto said = [&](const TestModel& model, std::optional<Engine>& engine) -> std::string {
      std::string text;
      try {
        model.loss(0, 0);
        text = "no error";
      } catch (const c10::Error& error) {
        text = error.what_without_backtrace();
      }
      for (const auto call : {+[](Engine& e) { e.step(); }, +[](Engine& e) { e.close(); }}) {
        try {
          call(*engine);
          text += "; no error";
        } catch (const Error& error) {
          text += "; " + error.message();
        }
      }
      engine.reset();
      return text;
    };
    on_threads(run, [&](const Ranks& ranks, const TestModel& model) {
      std::optional<Engine> engine(make_engine(run, ranks, model));
      comm::ChildProcesses child(1, [&](int /*rank*/) { return said(model, engine); });
      const auto ends = child.ends(Seconds(20));
      EXPECT_FALSE(ends[0].straggled);
      EXPECT_EQ(ends[0].status, 0);
      EXPECT_THAT(ends[0].text, AllOf(HasSubstr("forked"), HasSubstr("engine"),
                                      ::testing::Not(HasSubstr("no error"))));
      accumulate(*engine, run, model, 0);
      EXPECT_FALSE(engine->step().skipped);
    });
  });
}

}  // namespace
}  // namespace shardlight::engine
