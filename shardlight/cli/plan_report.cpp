#include "shardlight/cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "shardlight/base/printable.h"
#include "shardlight/cli/cells.h"
#include "shardlight/plan/builtin_models.h"

namespace shardlight::cli {
namespace {

using plan::ByteUnit;
using plan::Plan;
using plan::StagePlan;

std::string headline(const Plan& plan) {
  const plan::PlanRequest& request = plan.request;
  std::string text = fmt::format(
      "{}{} parameters on {} rank{}; precision {}, gradients {}, optimizer {}: {} + {} + {} bytes "
      "a "
      "parameter",
      request.model.name.empty() ? "" : printable(request.model.name) + ": ",
      plan::show_count(request.model.parameters), request.ranks, request.ranks == 1 ? "" : "s",
      name_of(request.precision), name_of(request.grad_dtype), name_of(request.optimizer),
      plan.bytes.parameter, plan.bytes.gradient, plan.bytes.optimizer);
  if (request.accumulation_steps > 1) {
    text += fmt::format("; {} accumulation steps, reduced {}", request.accumulation_steps,
                        name_of(request.reduce));
  }
  if (request.batch) {
    text +=
        fmt::format("; micro-batch {} x {} tokens, checkpointing {}, activations by the {} rule",
                    request.batch->micro_batch, request.batch->sequence,
                    name_of(request.checkpointing), name_of(request.activation_rule));
  }
  return text + ".";
}

std::vector<std::pair<std::string, Value>> settings(const Plan& plan) {
  const plan::PlanRequest& r = plan.request;
  const auto text = [](std::string_view name) { return Value(std::string(name)); };
  std::vector<std::pair<std::string, Value>> all = {
      {"model", r.model.name.empty() ? Value() : Value(r.model.name)},
      {"parameters", r.model.parameters.value()},
      {"ranks", r.ranks},
      {"precision", text(name_of(r.precision))},
      {"grad_dtype", text(name_of(r.grad_dtype))},
      {"optimizer", text(name_of(r.optimizer))},
      {"bytes_per_parameter", plan.bytes.total()},
      {"accumulation_steps", r.accumulation_steps},
      {"reduce", text(name_of(r.reduce))},
      {"unit_bytes", r.unit_bytes ? Value(r.unit_bytes->value()) : Value()},
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
  all.insert(all.end(), {{"exchange", text(name_of(r.exchange))},
                         {"dynamic_control_flow", r.dynamic_control_flow},
                         {"wants_replicas", r.wants_replicas}});
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
        "?: padding, gathered units and buckets need the parameters one by one, so a model that "
        "has "
        "them (--model with a name, a config.json or a .safetensors file).");
  }
  if (plan.activations && !plan.activations->temporary()) {
    notes.emplace_back("?: temporaries are not known by the zero rule.");
  }
  if (!plan.activations) {
    const bool shape = plan.request.model.shape.has_value();
    notes.emplace_back(std::string("?: activations and temporaries need ") +
                       (shape ? "" : "a model with a shape (--model), ") +
                       "--micro-batch and --sequence.");
  }
  return notes;
}

Table beside_table(const Plan& plan) {
  plan::Share largest;
  for (const StagePlan& stage : plan.stages) largest = std::max(largest, stage.peak);
  const ByteUnit unit = plan::unit_for(largest);
  Table table{.key = "beside",
              .title = fmt::format("Beside the states per rank, {}", unit.name),
              .columns = {{"stage", "stage"},
                          {"padding_bytes", "padding"},
                          {"gathered_units_bytes", "gathered"},
                          {"buckets_bytes", "buckets"},
                          {"unreduced_gradients_bytes", "unreduced"},
                          {"activations_bytes", "activations"},
                          {"temporaries_bytes", "temporaries"},
                          {"peak_bytes", plan.peaks_complete() ? "peak" : "peak, at least"}}};
  table.columns.push_back({.key = "peak_complete", .in_text = false});
  const auto kept = plan.activations ? std::optional(plan.activations->kept()) : std::nullopt;
  const auto temporary = plan.activations ? plan.activations->temporary() : std::nullopt;
  for (const StagePlan& stage : plan.stages) {
    const plan::Residuals& lines = stage.residuals;
    table.rows.push_back({number_cell(stage.stage),
                          bytes_cell(lines.padding, unit),
                          bytes_cell(lines.gathered_units, unit),
                          bytes_cell(lines.buckets, unit),
                          bytes_cell(plan::Share(lines.unreduced_gradients), unit),
                          bytes_cell(kept, unit),
                          bytes_cell(temporary, unit),
                          bytes_cell(stage.peak, unit),
                          {{}, plan.peaks_complete()}});
  }
  table.notes = unknown_lines(plan);
  add_fit(table, plan);
  return table;
}

std::string compute_note(const Plan& plan) {
  return fmt::format("Compute takes {} a step, at {} of {:.4g} operations a second.",
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
    const std::size_t messages = plan.units ? plan.units->size() : 1;
    table.notes.push_back(fmt::format("Time over {}, latency {}, {} message{} a pass.",
                                      plan.request.interconnect->name,
                                      plan::show_seconds(plan.request.interconnect->latency),
                                      messages, messages == 1 ? "" : "s"));
  }
  if (plan.compute_time) table.notes.push_back(compute_note(plan));
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
