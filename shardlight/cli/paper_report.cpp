// The ZeRO paper's two tables, as reports.
#include <fmt/format.h>

#include <array>

#include "shardlight/cli/cells.h"
#include "shardlight/cli/plan_report.h"

namespace shardlight::cli {
namespace {

constexpr std::array<const char*, layout::kStages> kStageNames = {"baseline", "os", "os+g",
                                                                  "os+g+p"};
constexpr plan::ByteUnit kGb{"GB", Bytes(plan::kGigabyte)};

}  // namespace

Report table1_report(const plan::Table1& paper) {
  Table table{
      .key = "table1",
      .title = {},
      .columns = {{"ranks", "ranks"}},
      .notes = {"os: optimizer states sharded (stage 1), g: gradients too (2), p: parameters "
                "too (3).",
                "* analytic: the paper computed these columns and never trained the model."}};
  for (const plan::Table1Column& column : paper.columns) {
    const std::string size = plan::show_count(column.parameters);
    for (int stage = 1; stage < layout::kStages; ++stage) {
      table.columns.push_back(
          {fmt::format("{}{}_stage{}_bytes", size, column.analytic ? "_analytic" : "", stage),
           fmt::format("{}{} {}", size, column.analytic ? "*" : "", kStageNames[stage])});
    }
  }
  for (const plan::Table1Cell& cell : paper.cells) {
    const bool new_row = table.rows.empty() || table.rows.back().size() == table.columns.size();
    if (new_row) table.rows.push_back({number_cell(cell.ranks)});
    table.rows.back().push_back(bytes_cell(cell.bytes, kGb));
  }
  return {.headline = "ZeRO paper, Table 1: GB of model states per rank, mixed-precision Adam.",
          .tables = {std::move(table)}};
}

Report table2_report(const std::vector<plan::Table2Row>& rows, Rounding rounding) {
  const bool exact = rounding == Rounding::kExact;
  Table table{
      .key = "table2",
      .title = {},
      .columns = {{"model_parallel", "MP"}, {"gpus", "GPUs"}},
      .notes = {exact ? "Each size is the exact one; --rounding paper multiplies the rounded "
                        "first row, as the paper does."
                      : "Rounded as in the paper: rows 2 to 16 are the rounded first row "
                        "times MP.",
                "Measured is the paper's data. The ratio is to the exact size: what the "
                "formula leaves out (activations, buffers) takes the rest."}};
  for (int stage = 0; stage < layout::kStages; ++stage) {
    table.columns.push_back({fmt::format("stage{}_parameters", stage), kStageNames[stage]});
  }
  for (int stage = 0; stage < 2; ++stage) {
    table.columns.push_back({fmt::format("stage{}_measured_parameters", stage),
                             fmt::format("measured {}", kStageNames[stage])});
    table.columns.push_back({fmt::format("stage{}_measured_ratio", stage), "ratio"});
  }
  for (const plan::Table2Row& row : rows) {
    auto& cells = table.rows.emplace_back(
        std::vector<Cell>{number_cell(row.model_parallel), number_cell(row.gpus)});
    for (int stage = 0; stage < layout::kStages; ++stage) {
      const Count size = exact ? row.exact[stage] : row.paper[stage];
      cells.push_back(
          {exact ? plan::show_billions(size) : plan::show_paper_count(size), size.value()});
    }
    for (int stage = 0; stage < 2; ++stage) {
      cells.push_back({plan::show_billions(row.measured[stage]), row.measured[stage].value()});
      cells.push_back(ratio_cell(row.measured_ratio(stage)));
    }
  }
  return {.headline =
              "ZeRO paper, Table 2: the largest model by its states, 64-way data parallel, 32 GB a "
              "device.",
          .tables = {std::move(table)}};
}

}  // namespace shardlight::cli
