#include "shardlight/cli/train/start_report.h"

#include <fmt/format.h>

#include "shardlight/base/printable.h"
#include "shardlight/cli/cells.h"
#include "shardlight/cli/train/predicted_peak.h"
#include "shardlight/cli/train/setting_value.h"
#include "shardlight/cli/train/zero_of_run.h"

namespace shardlight::cli {
namespace {

const char* name_of(SettingOrigin origin) {
  switch (origin) {
    case SettingOrigin::kConfig:
      return "config";
    case SettingOrigin::kFlag:
      return "flag";
    case SettingOrigin::kLauncher:
      return "launcher";
    case SettingOrigin::kDefault:
      break;
  }
  return "default";
}

std::optional<Bytes> total_of(const std::optional<plan::RunPeak>& peak) {
  if (!peak) return std::nullopt;
  return peak->total();
}

Table plan_table(const Preparation& preparation) {
  const plan::Plan& plan = preparation.plan;
  const ZeroConfig& zero = preparation.config().zero;
  const plan::ByteUnit unit = plan::unit_for(plan.stages[0].peak);
  Table table{.key = "plan",
              .title = fmt::format("Plan: bytes per rank and traffic a step, {}", unit.name),
              .columns = {{"stage", "stage"},
                          {"parameters_bytes", "parameters"},
                          {"gradients_bytes", "gradients"},
                          {"optimizer_bytes", "optimizer"},
                          {"padding_bytes", "padding"},
                          {"gathered_bytes", "gathered"},
                          {"buckets_bytes", "buckets"},
                          {"unreduced_bytes", "unreduced"},
                          {"activations_bytes", "activations"},
                          {"peak_bytes", "peak"},
                          {"predicted_peak_bytes", "predicted peak"},
                          {"wire_bytes", "on the wire"},
                          {"this_run", "", true}}};
  std::optional<Bytes> activations;
  if (plan.activations) {
    activations = plan.activations->kept() + plan.activations->temporary().value_or(Bytes(0));
  }
  for (const plan::StagePlan& stage : plan.stages) {
    const bool ours = stage.stage == zero.stage && !has_own_placements(zero);
    table.rows.push_back({number_cell(stage.stage),
                          bytes_cell(stage.states.parameters, unit),
                          bytes_cell(stage.states.gradients, unit),
                          bytes_cell(stage.states.optimizer, unit),
                          bytes_cell(stage.residuals.padding, unit),
                          bytes_cell(stage.residuals.gathered_units, unit),
                          bytes_cell(stage.residuals.buckets, unit),
                          bytes_cell(plan::Share(stage.residuals.unreduced_gradients), unit),
                          bytes_cell(activations, unit),
                          bytes_cell(stage.peak, unit),
                          bytes_cell(total_of(predicted_peak(preparation, stage.placements)), unit),
                          bytes_cell(stage.traffic.bytes_on_wire, unit),
                          {ours ? "<- this run" : "", ours}});
  }
  table.notes.emplace_back(
      "Peak: by rules of thumb, as `shardlight plan` has it. Predicted peak: of rank 0, from each "
      "operator of a step.");
  if (has_own_placements(zero)) {
    table.notes.emplace_back("This run has placements of its own; the stages are for comparison.");
  }
  return table;
}

}  // namespace

Table settings_table(const TrainRequest& request) {
  Table table{
      .key = "config",
      .title = "Settings",
      .columns = {{"path", "setting", true}, {"value", "value", true}, {"origin", "from", true}}};
  for (const Setting& setting : train_settings()) {
    if (!means_something(setting, request.config)) continue;
    table.rows.push_back(
        {text_cell(setting.path),
         {printable(shown_value(setting, request.config)), exact_value(setting, request.config)},
         text_cell(name_of(request.origin(setting.path)))});
  }
  return table;
}

Report start_report(const Preparation& preparation) {
  const TrainConfig& config = preparation.config();
  const auto parameters = preparation.plan.request.model.parameters;
  return {
      .headline = fmt::format(
          "A GPT of {} parameters ({}) learns {} of {} tokens on {} rank{}: {} steps of {} "
          "tokens.",
          plan::show_count(parameters), parameters.value(),
          preparation.sampler.training_tokens().value(), preparation.corpus->tokens().value(),
          config.ranks, config.ranks == 1 ? "" : "s", config.steps, preparation.tokens_per_step()),
      .settings = {{"parameters", parameters.value()},
                   {"training_tokens", preparation.sampler.training_tokens().value()},
                   {"held_out_tokens", preparation.sampler.held_out_tokens().value()},
                   {"tokens_per_step", preparation.tokens_per_step()}},
      .tables = {settings_table(preparation.request), plan_table(preparation)},
      .advice = {}};
}

std::string settings_help() {
  constexpr std::size_t kIndent = 30;
  const TrainConfig defaults;
  std::string text = "Settings of the config, a JSON file; \"model.layers\" is layers in model:\n";
  for (const Setting& setting : train_settings()) {
    text += fmt::format("  {:<{}}{} [{}]\n", setting.path, kIndent - 2, setting.help,
                        shown_value(setting, defaults));
    text += fmt::format("{:<{}}{}\n", "", kIndent, allowed_for(setting));
  }
  return text;
}

}  // namespace shardlight::cli
