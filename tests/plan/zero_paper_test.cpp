// Every cell of the ZeRO paper's Tables 1 and 2 and of the worked examples, by the display rule.
// The expected texts are the paper's (shared docs: ledger.md), typed in, not printed by our code.
#include "shardlight/plan/zero_paper.h"

#include <gtest/gtest.h>

#include "shardlight/plan/display.h"

namespace shardlight::plan {
namespace {

struct PaperRow {
  std::int64_t ranks;
  std::array<const char*, 9> cells;  // 7.5B, 128B, 1T, each os, os+g, os+g+p
};

constexpr std::array<PaperRow, 6> kTable1 = {
    {{1, {"120", "120", "120", "2048", "2048", "2048", "16000", "16000", "16000"}},
     {4, {"52.5", "41.3", "30", "896", "704", "512", "7000", "5500", "4000"}},
     {16, {"35.6", "21.6", "7.5", "608", "368", "128", "4750", "2875", "1000"}},
     {64, {"31.4", "16.6", "1.88", "536", "284", "32", "4187", "2218", "250"}},
     {256, {"30.4", "15.4", "0.47", "518", "263", "8", "4046", "2054", "62.5"}},
     {1024, {"30.1", "15.1", "0.12", "513", "257", "2", "4011", "2013", "15.6"}}}};

TEST(ZeroPaper, Table1CellByCell) {
  const Table1 table = zero_table1();
  ASSERT_EQ(table.cells.size(), 54U);
  std::size_t at = 0;
  for (const PaperRow& row : kTable1) {
    for (const char* expected : row.cells) {
      const Table1Cell& cell = table.cells[at++];
      EXPECT_EQ(cell.ranks, row.ranks);
      EXPECT_EQ(show_gb(cell.bytes), expected)
          << cell.parameters.value() << " parameters, stage " << cell.stage << ", " << row.ranks;
    }
  }
}

TEST(ZeroPaper, Table1MarksTheColumnsNobodyTrained) {
  const Table1 table = zero_table1();
  ASSERT_EQ(table.columns.size(), 3U);
  EXPECT_FALSE(table.columns[0].analytic);
  EXPECT_FALSE(table.columns[1].analytic);
  EXPECT_TRUE(table.columns[2].analytic);
  EXPECT_EQ(table.columns[2].parameters, Count(1'000'000'000'000));
}

struct Table2Expected {
  std::int64_t model_parallel, gpus;
  std::array<const char*, 4> paper;
  std::array<const char*, 4> exact;
  std::array<const char*, 2> measured;
  std::array<const char*, 2> ratio;
};

// Exact: MP x 32 GB / c with c = 16, 4 + 12/64, 2 + 14/64, 16/64, by hand.
const std::array<Table2Expected, 5> kTable2 = {{{1,
                                                 64,
                                                 {"2B", "7.6B", "14.4B", "128B"},
                                                 {"2B", "7.6B", "14.4B", "128B"},
                                                 {"1.3B", "6.2B"},
                                                 {"0.65", "0.81"}},
                                                {2,
                                                 128,
                                                 {"4B", "15.2B", "28.8B", "256B"},
                                                 {"4B", "15.3B", "28.8B", "256B"},
                                                 {"2.5B", "12.5B"},
                                                 {"0.63", "0.82"}},
                                                {4,
                                                 256,
                                                 {"8B", "30.4B", "57.6B", "0.5T"},
                                                 {"8B", "30.6B", "57.7B", "512B"},
                                                 {"5B", "25B"},
                                                 {"0.63", "0.82"}},
                                                {8,
                                                 512,
                                                 {"16B", "60.8B", "115.2B", "1T"},
                                                 {"16B", "61.1B", "115.4B", "1024B"},
                                                 {"10B", "50B"},
                                                 {"0.63", "0.82"}},
                                                {16,
                                                 1024,
                                                 {"32B", "121.6B", "230.4B", "2T"},
                                                 {"32B", "122.3B", "230.8B", "2048B"},
                                                 {"20B", "100B"},
                                                 {"0.63", "0.82"}}}};

TEST(ZeroPaper, Table2CellByCell) {
  const auto rows = zero_table2();
  ASSERT_EQ(rows.size(), kTable2.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].model_parallel, kTable2[i].model_parallel);
    EXPECT_EQ(rows[i].gpus, kTable2[i].gpus);
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(show_paper_count(rows[i].paper[stage]), kTable2[i].paper[stage]) << i << stage;
      EXPECT_EQ(show_billions(rows[i].exact[stage]), kTable2[i].exact[stage]) << i << stage;
    }
    for (int stage = 0; stage < 2; ++stage) {
      EXPECT_EQ(show_billions(rows[i].measured[stage]), kTable2[i].measured[stage]) << i << stage;
      EXPECT_EQ(show_ratio(rows[i].measured_ratio(stage)), kTable2[i].ratio[stage]) << i << stage;
      EXPECT_LT(rows[i].measured[stage], rows[i].exact[stage]);
    }
  }
}

TEST(ZeroPaper, Table2ExactSizesFitAndOneMoreParameterDoesNot) {
  const StateBytes bytes =
      state_bytes(Precision::kMixed, GradientDtype::kCompute, Optimizer::kAdam);
  for (const Table2Row& row : zero_table2()) {
    const Share memory(Bytes(32'000'000'000) * row.model_parallel);
    for (int stage = 0; stage < 4; ++stage) {
      const auto placements = *layout::placements_of_stage(stage, 64);
      const Count size = row.exact[stage];
      EXPECT_LE(model_states(size, bytes, placements, 64).total(), memory);
      EXPECT_GT(model_states(size + Count(1), bytes, placements, 64).total(), memory);
    }
  }
}

struct ExampleExpected {
  const char* name;
  std::array<const char*, 4> totals;
  std::array<std::array<const char*, 3>, 4> parts;  // parameters, gradients, optimizer
};

const std::array<ExampleExpected, 4> kExamples = {
    {{"A",
      {"120", "31.4", "16.6", "1.88"},
      {{{"15", "15", "90"},
        {"15", "15", "1.41"},
        {"15", "0.23", "1.41"},
        {"0.23", "0.23", "1.41"}}}},
     {"B",
      {"2048", "536", "284", "32"},
      {{{"256", "256", "1536"}, {"256", "256", "24"}, {"256", "4", "24"}, {"4", "4", "24"}}}},
     {"C1",
      {"90", "60.5", "30.9", "1.41"},
      {{{"30", "30", "30"},
        {"30", "30", "0.47"},
        {"30", "0.47", "0.47"},
        {"0.47", "0.47", "0.47"}}}},
     {"C2",
      {"12", "12", "6.75", "1.5"},
      {{{"6", "6", "0"}, {"6", "6", "0"}, {"6", "0.75", "0"}, {"0.75", "0.75", "0"}}}}}};

TEST(ZeroPaper, ExamplesWithTheirParts) {
  for (const ExampleExpected& expected : kExamples) {
    const Plan plan = *example_plan(expected.name);
    for (int stage = 0; stage < 4; ++stage) {
      const ModelStates& states = plan.stages[stage].states;
      EXPECT_EQ(show_gb(states.total()), expected.totals[stage]) << expected.name << stage;
      EXPECT_EQ(show_gb(states.parameters), expected.parts[stage][0]) << expected.name << stage;
      EXPECT_EQ(show_gb(states.gradients), expected.parts[stage][1]) << expected.name << stage;
      EXPECT_EQ(show_gb(states.optimizer), expected.parts[stage][2]) << expected.name << stage;
    }
  }
  EXPECT_EQ(show_ratio(example_plan("C1")->stages[3].compression_ratio), "64");
  EXPECT_EQ(show_ratio(example_plan("C2")->stages[3].compression_ratio), "8");
}

TEST(ZeroPaper, ExamplesTrafficAndItsStageOneSources) {
  const auto shown = [](const char* name) {
    std::vector<std::string> all;
    const Plan plan = *example_plan(name);
    for (const StagePlan& stage : plan.stages) {
      all.push_back(show_gb(stage.traffic.bytes));
    }
    return all;
  };
  EXPECT_EQ(shown("A"), (std::vector<std::string>{"30", "30", "30", "45"}));
  EXPECT_EQ(shown("B"), (std::vector<std::string>{"512", "512", "512", "768"}));
  const auto sources = [](const char* name) {
    std::vector<std::string> all;
    const Plan plan = *example_plan(name);
    for (const StageOneSource& source : plan.stage_one_sources) {
      all.push_back(show_gb(source.bytes));
    }
    return all;
  };
  EXPECT_EQ(sources("A"), (std::vector<std::string>{"30", "45", "30"}));
  EXPECT_EQ(sources("B"), (std::vector<std::string>{"512", "768", "512"}));
}

TEST(ZeroPaper, AnUnknownExampleNamesTheKnownOnes) {
  EXPECT_EQ(example_plan("D").error().message(),
            "example: 'D' is not allowed; allowed: one of: A, B, C1, C2");
}

}  // namespace
}  // namespace shardlight::plan
