#include "shardlight/cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "shardlight/cli/cells.h"
#include "shardlight/plan/builtin_models.h"

namespace shardlight::cli {
namespace {

using plan::ByteUnit;
using plan::Plan;
using plan::StagePlan;

std::string headline(const Plan& plan) {
  const plan::PlanRequest& request = plan.request;
  const std::string name = request.model.name.empty() ? "" : request.model.name + ": ";
  return fmt::format(
      "{}{} parameters on {} rank{}; precision {}, gradients {}, optimizer {}: {} + {} + {} bytes "
      "a "
      "parameter.",
      name, plan::show_count(request.model.parameters), request.ranks,
      request.ranks == 1 ? "" : "s", plan::name_of(request.precision),
      plan::name_of(request.gradients), plan::name_of(request.optimizer), plan.bytes.parameter,
      plan.bytes.gradient, plan.bytes.optimizer);
}

template <class T>
Value value_or_nothing(const std::optional<T>& value) {
  return value ? Value(*value) : Value();
}

std::vector<std::pair<std::string, Value>> settings(const Plan& plan) {
  const plan::PlanRequest& r = plan.request;
  const auto text = [](std::string_view name) { return Value(std::string(name)); };
  std::vector<std::pair<std::string, Value>> all = {
      {"model", r.model.name.empty() ? Value() : Value(r.model.name)},
      {"parameters", r.model.parameters.value()},
      {"ranks", r.ranks},
      {"precision", text(name_of(r.precision))},
      {"gradients", text(name_of(r.gradients))},
      {"optimizer", text(name_of(r.optimizer))},
      {"bytes_per_parameter", plan.bytes.total()},
      {"accumulation_steps", r.accumulation_steps},
      {"reduce", text(name_of(r.reduce))},
      {"units", plan.units ? Value(static_cast<std::int64_t>(plan.units->size())) : Value()},
      {"device_memory_bytes", r.device_memory ? Value(r.device_memory->value()) : Value()}};
  if (r.batch) {
    all.insert(all.end(), {{"micro_batch", r.batch->micro_batch},
                           {"sequence", r.batch->sequence},
                           {"checkpointing", text(name_of(r.checkpointing))},
                           {"activation_rule", text(name_of(r.activation_rule))}});
  }
  if (r.interconnect) {
    all.insert(all.end(), {{"interconnect", text(r.interconnect->name)},
                           {"bytes_per_second", r.interconnect->bytes_per_second},
                           {"latency_seconds", r.interconnect->latency.count()}});
  }
  if (r.compute) {
    all.insert(all.end(),
               {{"peak_flops", r.compute->peak_flops}, {"efficiency", r.compute->efficiency}});
  }
  all.emplace_back("compute_seconds",
                   plan.compute_time ? Value(plan.compute_time->count()) : Value());
  return all;
}

Table states_table(const Plan& plan) {
  const ByteUnit unit = plan::unit_for(plan.stages[0].states.total());
  Table table{.key = "states",
              .title = fmt::format("Model states per rank, {}", unit.name),
              .columns = {{"stage", "stage"},
                          {"parameters_bytes", "parameters"},
                          {"gradients_bytes", "gradients"},
                          {"optimizer_bytes", "optimizer"},
                          {"total_bytes", "total"},
                          {"compression_ratio", "ratio"}}};
  for (const StagePlan& stage : plan.stages) {
    table.rows.push_back(
        {number_cell(stage.stage), bytes_cell(stage.states.parameters, unit),
         bytes_cell(stage.states.gradients, unit), bytes_cell(stage.states.optimizer, unit),
         bytes_cell(stage.states.total(), unit), ratio_cell(stage.compression_ratio, "x")});
  }
  return table;
}

void add_fit(Table& table, const Plan& plan) {
  if (!plan.request.device_memory) {
    table.notes.emplace_back(
        "--device or --device-memory adds which stage fits, and the largest model that does.");
    return;
  }
  table.columns.push_back({"fits", "fits"});
  table.columns.push_back({"largest_model_parameters", "largest model"});
  for (const StagePlan& stage : plan.stages) {
    auto& row = table.rows[stage.stage];
    row.push_back({*stage.fits ? "yes" : "no", *stage.fits});
    row.push_back(count_cell(*stage.largest_model));
  }
  table.notes.push_back(
      fmt::format("Fits: all that is known, in {} a rank. Largest model: by its states alone.",
                  plan::show_bytes(plan::Share(*plan.request.device_memory))));
}

std::vector<std::string> unknown_lines(const Plan& plan) {
  std::vector<std::string> notes;
  if (!plan.units) {
    notes.emplace_back(
        "?: not known from a count; a model (--model) has units, so padding, gathered units and "
        "buckets.");
  }
  if (!plan.activations) {
    notes.emplace_back(
        "?: activations and temporaries need a --model with a shape, --micro-batch and "
        "--sequence.");
  }
  return notes;
}

Table beside_table(const Plan& plan) {
  plan::Share largest;
  for (const StagePlan& stage : plan.stages) largest = std::max(largest, stage.peak);
  const ByteUnit unit = plan::unit_for(largest);
  const bool all_known = plan.units && plan.activations;
  Table table{.key = "beside",
              .title = fmt::format("Beside the states per rank, {}", unit.name),
              .columns = {{"stage", "stage"},
                          {"padding_bytes", "padding"},
                          {"gathered_units_bytes", "gathered"},
                          {"buckets_bytes", "buckets"},
                          {"unreduced_gradients_bytes", "unreduced"},
                          {"activations_bytes", "activations"},
                          {"temporaries_bytes", "temporaries"},
                          {"peak_bytes", all_known ? "peak" : "peak, at least"}}};
  const auto of_activations = [&](Bytes (plan::Activations::*part)() const) {
    return plan.activations ? std::optional((*plan.activations.*part)()) : std::nullopt;
  };
  for (const StagePlan& stage : plan.stages) {
    const plan::Residuals& lines = stage.residuals;
    table.rows.push_back({number_cell(stage.stage), bytes_cell(lines.padding, unit),
                          bytes_cell(lines.gathered_units, unit), bytes_cell(lines.buckets, unit),
                          bytes_cell(plan::Share(lines.unreduced_gradients), unit),
                          bytes_cell(of_activations(&plan::Activations::kept), unit),
                          bytes_cell(of_activations(&plan::Activations::temporary), unit),
                          bytes_cell(stage.peak, unit)});
  }
  table.notes = unknown_lines(plan);
  add_fit(table, plan);
  return table;
}

std::string compute_note(const Plan& plan) {
  if (!plan.compute_time) return {};
  return fmt::format(" Compute takes {} a step, at {} of {:.4g} operations a second.",
                     plan::show_seconds(*plan.compute_time), plan.request.compute->efficiency,
                     plan.request.compute->peak_flops);
}

Table traffic_table(const Plan& plan) {
  const ByteUnit unit = plan::unit_for(plan.stages[3].traffic.bytes);
  Table table{.key = "traffic",
              .title = fmt::format("Traffic per rank and step, {}", unit.name),
              .columns = {{"stage", "stage"},
                          {"traffic_elements_per_parameter", "elements"},
                          {"traffic_bytes", "traffic"},
                          {"wire_bytes", "on the wire"}}};
  if (plan.request.interconnect) table.columns.push_back({"traffic_seconds", "time"});
  for (const StagePlan& stage : plan.stages) {
    auto& row = table.rows.emplace_back(
        std::vector<Cell>{number_cell(stage.stage),
                          {fmt::format("{} x params", stage.traffic.elements_per_parameter),
                           stage.traffic.elements_per_parameter},
                          bytes_cell(stage.traffic.bytes, unit),
                          bytes_cell(stage.traffic.bytes_on_wire, unit)});
    if (plan.request.interconnect) row.push_back(seconds_cell(stage.traffic_time));
  }
  if (plan.request.interconnect) {
    table.notes.push_back(fmt::format(
        "Time over {}, latency {}, {} message{} a pass.{}", plan.request.interconnect->name,
        plan::show_seconds(plan.request.interconnect->latency), plan.units ? plan.units->size() : 1,
        plan.units && plan.units->size() != 1 ? "s" : "", compute_note(plan)));
  }
  return table;
}

Table sources_table(const Plan& plan) {
  const ByteUnit unit = plan::unit_for(plan.stages[3].traffic.bytes);
  Table table{.key = "stage_1_sources",
              .title = "Stage 1 traffic by source, one micro-step",
              .columns = {{"traffic_elements_per_parameter", "elements"},
                          {"traffic_bytes", unit.name},
                          {"source", "source", true},
                          {"how", "how", true}},
              .in_csv = false};
  for (const plan::StageOneSource& source : plan.stage_one_sources) {
    table.rows.push_back(
        {{fmt::format("{} x params", source.elements_per_parameter), source.elements_per_parameter},
         bytes_cell(source.bytes, unit),
         text_cell(source.source),
         text_cell(source.how)});
  }
  return table;
}

}  // namespace

Report plan_report(const Plan& plan, const plan::Capabilities& build) {
  return {
      .headline = headline(plan),
      .settings = settings(plan),
      .tables = {states_table(plan), beside_table(plan), traffic_table(plan), sources_table(plan)},
      .advice = advise(plan, build)};
}

Result<Report> models_report() {
  Table table{.key = "models",
              .title = {},
              .columns = {{"name", "name", true},
                          {"parameters", "parameters"},
                          {"description", "description", true},
                          {.key = "source", .in_text = false}}};
  for (const plan::BuiltinModel& builtin : plan::builtin_models()) {
    SHARDLIGHT_TRY(const plan::Model model, plan::builtin_model(std::string(builtin.name)));
    table.rows.push_back({text_cell(model.name), count_cell(model.parameters),
                          text_cell(std::string(builtin.description)),
                          text_cell(std::string(builtin.source))});
  }
  return Report{.headline = "Built-in models, for --model.", .tables = {table}};
}

}  // namespace shardlight::cli
