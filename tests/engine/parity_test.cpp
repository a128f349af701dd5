// Stages 0 to 3 train with the same bits, and with those of one plain process.
#include <gtest/gtest.h>

#include <tuple>

#include "training.h"

namespace shardlight::engine {
namespace {

using Case = std::tuple<std::string, std::int64_t>;

class Parity : public ::testing::TestWithParam<Case> {
 protected:
  Training training(int stage) const {
    Training run;
    run.model = std::get<0>(GetParam());
    run.world = std::get<1>(GetParam());
    run.options.stage = stage;
    run.options.unit_bytes = Bytes(4096);
    run.options.deadline = Seconds(60);
    return run;
  }
};

TEST_P(Parity, OfStagesWithAPlainProcess) {
  const Outcome plain = train_plainly(training(0), false);
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_EQ(difference(train(training(stage)), plain), "") << "stage " << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Parity,
                         ::testing::Combine(::testing::ValuesIn(model_names()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& chosen) {
                           return std::get<0>(chosen.param) +
                                  std::to_string(std::get<1>(chosen.param));
                         });

}  // namespace
}  // namespace shardlight::engine
