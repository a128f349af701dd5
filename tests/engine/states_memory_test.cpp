// The steady bytes of parameters, gradients and optimizer states are what the ledger and the
// padding say, exactly, rank by rank: here from the shapes alone, and by the plan's own lines.
#include <gtest/gtest.h>

#include <array>

#include "plain_twin.h"
#include "shardlight/plan/ledger.h"
#include "shardlight/plan/residuals.h"

namespace shardlight::engine {
namespace {

constexpr std::int64_t kBlock = 64;  // elements
constexpr std::int64_t kFloat = 4;   // bytes
constexpr std::int64_t kHalf = 2;

std::int64_t blocks_of(std::int64_t elements) { return (elements + kBlock - 1) / kBlock; }

// Blocks of each unit, by kind: each parameter is a unit of its own (unit_bytes 0, no numbered
// blocks), or there is one unit of each kind (unit_bytes without end).
using Units = std::vector<std::int64_t>;
struct Blocks {
  Units trained, frozen, trained_half, frozen_half;
};

Blocks blocks_of_units(const TestModel& model, bool one_unit) {
  Blocks blocks;
  for (const auto& [name, parameter] : unique_parameters(model)) {
    const bool trains = parameter.requires_grad();
    Units& kind = parameter.scalar_type() == at::kFloat
                      ? (trains ? blocks.trained : blocks.frozen)
                      : (trains ? blocks.trained_half : blocks.frozen_half);
    if (kind.empty() || !one_unit) kind.push_back(0);
    kind.back() += blocks_of(parameter.numel());
  }
  return blocks;
}

// Slices of whole blocks, the last ones shorter.
std::int64_t elements_of_rank(const Units& units, std::int64_t ways, std::int64_t rank) {
  std::int64_t blocks = 0;
  for (const std::int64_t unit : units) {
    const std::int64_t slice = (unit + ways - 1) / ways;
    blocks += std::clamp<std::int64_t>(unit - rank % ways * slice, 0, slice);
  }
  return blocks * kBlock;
}

// Of which states a rank holds its slice only, by stage.
std::array<std::int64_t, 3> ways_of(int stage, std::int64_t world) {
  return {stage >= 3 ? world : 1, stage >= 2 ? world : 1, stage >= 1 ? world : 1};
}

struct Held {
  std::int64_t parameters = 0, gradients = 0, masters = 0, optimizer = 0;
  bool operator==(const Held&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Held& held) {
  return out << held.parameters << " + " << held.gradients << " + " << held.masters << " + "
             << held.optimizer << " bytes";
}

// `sum`: bytes of a 16-bit parameter's gradient.
Held expected(const Blocks& blocks, int stage, std::int64_t world, std::int64_t rank,
              std::int64_t states, std::int64_t sum = kFloat) {
  const auto [parameters, gradients, optimizer] = ways_of(stage, world);
  const auto of = [&](const Units& units, std::int64_t ways) {
    return elements_of_rank(units, ways, rank);
  };
  return {.parameters =
              kFloat * (of(blocks.trained, parameters) + of(blocks.frozen, parameters)) +
              kHalf * (of(blocks.trained_half, parameters) + of(blocks.frozen_half, parameters)),
          .gradients =
              kFloat * of(blocks.trained, gradients) + sum * of(blocks.trained_half, gradients),
          .masters = kFloat * of(blocks.trained_half, optimizer),
          .optimizer = kFloat * states *
                       (of(blocks.trained, optimizer) + of(blocks.trained_half, optimizer))};
}

const TagReport& tag(const MemoryReport& report, memory::Tag tag) {
  return *std::ranges::find(report.tags, tag, &TagReport::tag);
}

Held measured(const MemoryReport& report) {
  return {.parameters = tag(report, memory::Tag::kParameters).bytes.now.value(),
          .gradients = tag(report, memory::Tag::kGradients).bytes.now.value(),
          .masters = tag(report, memory::Tag::kMaster).bytes.now.value(),
          .optimizer = tag(report, memory::Tag::kOptimizer).bytes.now.value()};
}

Held by_ledger(const MemoryReport& report) {
  return {.parameters = tag(report, memory::Tag::kParameters).ledger.value().value(),
          .gradients = tag(report, memory::Tag::kGradients).ledger.value().value(),
          .masters = tag(report, memory::Tag::kMaster).ledger.value().value(),
          .optimizer = tag(report, memory::Tag::kOptimizer).ledger.value().value()};
}

struct OptimizerCase {
  Optimizer optimizer;
  std::int64_t states;
  plan::Optimizer in_plan;
};

const std::array kOptimizers = {
    OptimizerCase{AdamW{.lr = 1e-2}, 2, plan::Optimizer::kAdam},
    OptimizerCase{Adam{.lr = 1e-2}, 2, plan::Optimizer::kAdam},
    OptimizerCase{SGD{.lr = 1e-2, .momentum = 0.9}, 1, plan::Optimizer::kSgdMomentum},
    OptimizerCase{SGD{.lr = 1e-2}, 0, plan::Optimizer::kSgd}};

class StatesMemory : public ::testing::TestWithParam<std::string> {
 protected:
  static Training training(const OptimizerCase& optimizer, std::int64_t world, bool one_unit) {
    Training run;
    run.model = GetParam();
    run.world = world;
    run.steps = 2;
    run.optimizer = optimizer.optimizer;
    run.options.unit_bytes = Bytes(one_unit ? 1 << 30 : 0);
    run.options.deadline = Seconds(60);
    return run;
  }
};

TEST_P(StatesMemory, IsTheLedgersByShapesAndSlices) {
  std::size_t turn = 0;
  for (const std::int64_t world : {1, 2, 3, 4}) {
    const OptimizerCase& optimizer = kOptimizers.at(turn % kOptimizers.size());
    const bool one_unit = turn++ % 2 == 1;
    Training run = training(optimizer, world, one_unit);
    const Blocks blocks = blocks_of_units(model_of_rank(run, 0), one_unit);
    const Outcome plain = train_plainly(run);
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(testing::Message() << world << " ranks, stage " << stage);
      run.options.stage = stage;
      const Outcome outcome = train(run);
      EXPECT_EQ(difference(outcome, plain), "");
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const Held held = expected(blocks, stage, world, rank, optimizer.states);
        const MemoryReport& memory = outcome.memory.at(static_cast<std::size_t>(rank));
        EXPECT_EQ(measured(memory), held) << "rank " << rank;
        EXPECT_EQ(by_ledger(memory), held) << "rank " << rank;
        EXPECT_EQ(tag(memory, memory::Tag::kBuckets).bytes.now, Bytes(0));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, StatesMemory,
                         ::testing::Values("mlp", "tied", "frozen", "sizes", "tiny", "bf16",
                                           "mixed"),
                         [](const auto& chosen) { return chosen.param; });

// Sums of 16-bit parameters in their own dtype: 2 bytes an element wherever gradients are kept.
TEST(StatesMemoryOf, SumsInTheParametersDTypeIsTheLedgers) {
  constexpr std::int64_t kMicroSteps = 2;
  for (const char* model : {"bf16", "fp16", "mixed"}) {
    for (const std::int64_t world : {1, 2, 3}) {
      Training run;
      run.model = model;
      run.world = world;
      run.steps = 1;
      run.options.grad_dtype = plan::GradientDtype::kCompute;
      run.options.accumulation = kMicroSteps;
      run.options.reduce = plan::ReduceSetting::kOnce;
      run.options.unit_bytes = Bytes(0);
      const Blocks blocks = blocks_of_units(model_of_rank(run, 0), false);
      const Outcome plain = train_plainly(run);
      for (int stage = 0; stage <= 3; ++stage) {
        SCOPED_TRACE(testing::Message() << model << ", " << world << " ranks, stage " << stage);
        run.options.stage = stage;
        const Outcome outcome = train(run);
        EXPECT_EQ(difference(outcome, plain), "");
        for (std::int64_t rank = 0; rank < world; ++rank) {
          const Held held = expected(blocks, stage, world, rank, 2, kHalf);
          const MemoryReport& memory = outcome.memory.at(static_cast<std::size_t>(rank));
          EXPECT_EQ(measured(memory), held) << "rank " << rank;
          EXPECT_EQ(by_ledger(memory), held) << "rank " << rank;
          // Local sums of whole units, or shared ones of a slice, are beside the gradients.
          const bool sharded = stage >= 2 && world > 1;
          const std::int64_t beside =
              expected(blocks, 2, sharded ? 1 : world, rank, 2, kHalf).gradients;
          const auto other = sharded ? memory::Tag::kUnreduced : memory::Tag::kSums;
          EXPECT_EQ(tag(memory, other).bytes.now.value(), beside) << "rank " << rank;
          EXPECT_EQ(tag(memory, memory::Tag::kBuckets).bytes.now, Bytes(0));
        }
      }
    }
  }
}

// What the plan says before a run of rank 0, which has the most.
TEST(StatesMemoryOf, RankZeroIsThePlansFloorAndPadding) {
  Training run;
  run.steps = 1;
  run.options.unit_bytes = Bytes(0);
  layout::ParameterTable table;
  for (const auto& [name, parameter] : unique_parameters(model_of_rank(run, 0))) {
    ASSERT_TRUE(table.add(name, parameter.sizes().vec()).has_value());
  }
  const auto units = layout::build_units(table, {.bytes_min = Bytes(0), .bytes_per_element = {}});
  ASSERT_TRUE(units.has_value());
  for (const OptimizerCase& optimizer : kOptimizers) {
    const auto bytes =
        plan::state_bytes(plan::Precision::kFp32, plan::GradientDtype::kCompute, optimizer.in_plan);
    for (int stage = 0; stage <= 3; ++stage) {
      run.world = 3;
      run.optimizer = optimizer.optimizer;
      run.options.stage = stage;
      const auto placements = layout::placements_of_stage(stage, run.world);
      const plan::Share floor =
          plan::model_states(table.elements(), bytes, *placements, run.world).total();
      const auto lines =
          plan::residuals(*units, *placements,
                          {.parameters = table.elements(), .ranks = run.world, .bytes = bytes});
      const Held held = measured(train(run).memory.front());
      EXPECT_EQ(plan::Share(Bytes(held.parameters + held.gradients + held.optimizer)),
                floor + lines.padding.value())
          << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace shardlight::engine
