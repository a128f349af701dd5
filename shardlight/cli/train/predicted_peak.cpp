#include "shardlight/cli/train/predicted_peak.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardlight/cli/cells.h"
#include "shardlight/cli/train/zero_of_run.h"

namespace shardlight::cli {
namespace {

std::int64_t partial_sums(const TrainConfig& config) {
  const comm::ReduceOrder order = config.zero.reproducible
                                      ? comm::ReduceOrder{.kind = comm::ReduceOrderKind::kTree}
                                      : reduce_order_of(config.zero);
  return comm::reduce_buffers(order, config.ranks) - 1;
}

std::int64_t states_of(plan::Optimizer optimizer) {
  switch (optimizer) {
    case plan::Optimizer::kSgd:
      return 0;
    case plan::Optimizer::kSgdMomentum:
      return 1;
    case plan::Optimizer::kAdam:
      break;
  }
  return 2;
}

}  // namespace

std::optional<plan::RunPeak> predicted_peak(const Preparation& preparation,
                                            const layout::Placements& placements) {
  const TrainConfig& config = preparation.config();
  const plan::Plan& plan = preparation.plan;
  if (!plan.units) return std::nullopt;
  const plan::RunMemory run = {.placements = placements,
                               .ranks = config.ranks,
                               .optimizer_states = states_of(plan.request.optimizer),
                               .accumulation = config.batch.accumulation,
                               .reduce = plan.request.reduce,
                               .reproducible = config.zero.reproducible,
                               .partial_sums = partial_sums(config),
                               .bucket_bytes = config.zero.bucket_bytes,
                               .gathered_bytes = config.zero.gathered_bytes,
                               .shared_units = config.zero.shared_units};
  const plan::GptStep step = {.vocabulary = config.model.vocabulary,
                              .positions = config.model.positions,
                              .hidden = config.model.hidden,
                              .layers = config.model.layers,
                              .heads = config.model.heads,
                              .tied = config.model.tied,
                              .dropout = config.model.dropout > 0,
                              .micro_batch = config.batch.micro_batch,
                              .sequence = config.batch.sequence,
                              .threads = std::max<std::int64_t>(1, config.threads)};
  auto peak = plan::run_peak(*plan.units, run, step);
  if (!peak) return std::nullopt;
  return *peak;
}

Table peak_table(const Preparation& preparation, Bytes measured) {
  std::optional<plan::RunPeak> predicted;
  if (const auto placements = placements_of_run(preparation.config())) {
    predicted = predicted_peak(preparation, *placements);
  }
  const plan::ByteUnit unit = plan::unit_for(plan::Share(measured));
  Table table{.key = "peak",
              .title = fmt::format("Highest memory of rank 0, {}", unit.name),
              .columns = {{"measured_bytes", "measured"},
                          {"predicted_bytes", "predicted"},
                          {"predicted_over_measured", "share of the measured"}},
              .rows = {},
              .notes = {}};
  if (!predicted) {
    table.rows.push_back({bytes_cell(plan::Share(measured), unit), {"?", {}}, {"?", {}}});
    table.notes.emplace_back("Not predicted for dropout with a single sequence, head or token.");
    return table;
  }
  const double share = static_cast<double>(predicted->total().value()) /
                       static_cast<double>(std::max<std::int64_t>(1, measured.value()));
  table.rows.push_back({bytes_cell(plan::Share(measured), unit),
                        bytes_cell(plan::Share(predicted->total()), unit),
                        {fmt::format("{:.2f} %", 100 * share), share}});
  return table;
}

}  // namespace shardlight::cli
