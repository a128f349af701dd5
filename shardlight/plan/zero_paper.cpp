#include "shardlight/plan/zero_paper.h"

#include <algorithm>

#include "shardlight/base/nearest.h"
#include "shardlight/plan/display.h"

namespace shardlight::plan {
namespace {

constexpr std::int64_t kBillion = 1'000'000'000;
constexpr std::int64_t kTable2Ranks = 64;
constexpr Bytes kTable2Memory{32 * kBillion};

StateBytes paper_bytes() {
  return state_bytes(Precision::kMixed, GradientDtype::kCompute, Optimizer::kAdam);
}

// A count as the paper prints it, one decimal of billions, half up.
Count rounded_to_tenth_of_billion(Count count) {
  constexpr std::int64_t kTenth = kBillion / 10;
  return Count((count.value() + kTenth / 2) / kTenth * kTenth);
}

struct Example {
  std::string name;
  Count parameters;
  std::int64_t ranks;
  Precision precision;
  Optimizer optimizer;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> kExamples = {
      {"A", Count(7'500'000'000), 64, Precision::kMixed, Optimizer::kAdam},
      {"B", Count(128 * kBillion), 64, Precision::kMixed, Optimizer::kAdam},
      {"C1", Count(7'500'000'000), 64, Precision::kFp32, Optimizer::kSgdMomentum},
      {"C2", Count(1'500'000'000), 8, Precision::kFp32, Optimizer::kSgd}};
  return kExamples;
}

}  // namespace

Table1 zero_table1() {
  Table1 table{.ranks = {1, 4, 16, 64, 256, 1024},
               .columns = {{Count(7'500'000'000), false},
                           {Count(128 * kBillion), false},
                           {Count(1'000 * kBillion), true}},
               .cells = {}};
  for (const std::int64_t ranks : table.ranks) {
    for (const Table1Column& column : table.columns) {
      for (int stage = 1; stage < layout::kStages; ++stage) {
        const auto placements = *layout::placements_of_stage(stage, ranks);
        const Share bytes =
            model_states(column.parameters, paper_bytes(), placements, ranks).total();
        table.cells.push_back({ranks, column.parameters, stage, bytes});
      }
    }
  }
  return table;
}

double Table2Row::measured_ratio(int stage) const {
  return static_cast<double>(measured[stage].value()) / static_cast<double>(exact[stage].value());
}

std::vector<Table2Row> zero_table2() {
  // Measured, in tenths of a billion: stage 0 and stage 1 (Table 2 of the paper).
  struct Measured {
    std::int64_t model_parallel, stage0, stage1;
  };
  constexpr std::array<Measured, 5> kMeasured = {
      {{1, 13, 62}, {2, 25, 125}, {4, 50, 250}, {8, 100, 500}, {16, 200, 1000}}};
  std::vector<Table2Row> rows;
  for (const Measured& measured : kMeasured) {
    Table2Row row{.model_parallel = measured.model_parallel,
                  .gpus = kTable2Ranks * measured.model_parallel,
                  .exact = {},
                  .paper = {},
                  .measured = {Count(measured.stage0 * kBillion / 10),
                               Count(measured.stage1 * kBillion / 10)}};
    for (int stage = 0; stage < layout::kStages; ++stage) {
      const auto placements = *layout::placements_of_stage(stage, kTable2Ranks);
      const auto fits = [&](std::int64_t devices) {
        return largest_model(kTable2Memory * devices, paper_bytes(), placements, kTable2Ranks);
      };
      row.exact[stage] = fits(measured.model_parallel);
      row.paper[stage] = rounded_to_tenth_of_billion(fits(1)) * measured.model_parallel;
    }
    rows.push_back(row);
  }
  return rows;
}

const std::vector<std::string>& example_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Example& example : examples()) names.push_back(example.name);
    return names;
  }();
  return kNames;
}

Result<Plan> example_plan(const std::string& name) {
  for (const Example& example : examples()) {
    if (example.name != name) continue;
    return make_plan({.model = {.name = "example " + name,
                                .parameters = example.parameters,
                                .table = {},
                                .shape = {}},
                      .ranks = example.ranks,
                      .precision = example.precision,
                      .optimizer = example.optimizer});
  }
  return user_error("example", name, one_of(example_names(), name));
}

}  // namespace shardlight::plan
