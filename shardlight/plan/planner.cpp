#include "shardlight/plan/planner.h"

#include <fmt/format.h>

#include <utility>

namespace shardlight::plan {
namespace {

Status check(const PlanRequest& request) {
  SHARDLIGHT_TRY_STATUS(check_parameters(request.model.parameters));
  if (request.accumulation_steps < 1 || request.accumulation_steps > kMaxAccumulationSteps) {
    return user_error("accumulation_steps", fmt::to_string(request.accumulation_steps),
                      fmt::format("1 to {}", kMaxAccumulationSteps));
  }
  if (request.device_memory && *request.device_memory < Bytes(1)) {
    return user_error("device_memory", fmt::to_string(request.device_memory->value()),
                      "1 byte or more");
  }
  if (request.batch && !request.model.shape) {
    return user_error("micro_batch", fmt::to_string(request.batch->micro_batch),
                      "a batch only with a model whose shape is known (a built-in name or a "
                      "config.json): activations depend on it");
  }
  if (request.unit_bytes && !request.model.table) {
    return user_error("unit_bytes", fmt::to_string(request.unit_bytes->value()),
                      "a size of units only with a model whose parameters are known one by one");
  }
  if (request.interconnect && request.interconnect->bytes_per_second <= 0) {
    return user_error("bytes_per_second", fmt::to_string(request.interconnect->bytes_per_second),
                      "more than 0");
  }
  if (request.compute && !request.batch) {
    return user_error("peak_flops", fmt::to_string(request.compute->peak_flops),
                      "a compute rate only with a batch: without tokens there is nothing to time");
  }
  if (request.compute && request.compute->peak_flops <= 0) {
    return user_error("peak_flops", fmt::to_string(request.compute->peak_flops), "more than 0");
  }
  if (request.compute && (request.compute->efficiency <= 0 || request.compute->efficiency > 1)) {
    return user_error("efficiency", fmt::to_string(request.compute->efficiency),
                      "more than 0 and at most 1");
  }
  return {};
}

// 6 operations a parameter and token, of which the forward is 2 (Kaplan et al. 2020, section 2.1);
// checkpointing computes forwards again.
std::optional<Seconds> compute_time(const PlanRequest& request,
                                    const std::optional<Activations>& activations) {
  if (!request.compute || !request.batch) return std::nullopt;
  const double tokens = static_cast<double>(request.batch->micro_batch) *
                        static_cast<double>(request.batch->sequence) *
                        static_cast<double>(request.accumulation_steps);
  const double operations = (6 + 2 * (activations ? activations->extra_forward : 0)) * tokens *
                            static_cast<double>(active_parameters(request.model).value());
  return Seconds(operations / (request.compute->peak_flops * request.compute->efficiency));
}

// States and every known line beside them.
Share peak_of(const StagePlan& stage, const std::optional<Activations>& activations) {
  const Residuals& lines = stage.residuals;
  Bytes beside = lines.unreduced_gradients;
  for (const auto& line : {lines.gathered_units, lines.buckets}) {
    beside += line.value_or(Bytes(0));
  }
  if (activations) beside += activations->kept() + activations->temporary().value_or(Bytes(0));
  return stage.states.total() + lines.padding.value_or(Share()) + Share(beside);
}

Result<StagePlan> plan_stage(int number, const Plan& plan) {
  const PlanRequest& request = plan.request;
  const Count parameters = request.model.parameters;
  StagePlan stage{.stage = number};
  SHARDLIGHT_TRY(stage.placements, layout::placements_of_stage(number, request.ranks));
  stage.states = model_states(parameters, plan.bytes, stage.placements, request.ranks);
  stage.compression_ratio = compression_ratio(parameters, plan.bytes, stage.states);
  stage.residuals = residuals(plan.units, stage.placements,
                              {.parameters = parameters,
                               .ranks = request.ranks,
                               .bytes = plan.bytes,
                               .accumulation_steps = request.accumulation_steps,
                               .reduce = request.reduce});
  stage.peak = peak_of(stage, plan.activations);

  const auto passes =
      passes_of_step(stage.placements, plan.bytes, request.accumulation_steps, request.reduce);
  stage.traffic = traffic_of(passes, parameters, request.ranks);
  if (!stage.traffic.bytes.fits()) {
    return user_error("accumulation_steps", fmt::to_string(request.accumulation_steps),
                      "fewer: the bytes of a step must stay below 2^63");
  }
  if (request.interconnect) {
    const auto messages = static_cast<std::int64_t>(plan.units ? plan.units->size() : 1);
    stage.traffic_time =
        traffic_time(passes, parameters, request.ranks, messages, *request.interconnect);
  }
  if (request.device_memory) {
    stage.fits = stage.peak <= Share(*request.device_memory);
    stage.largest_model =
        largest_model(*request.device_memory, plan.bytes, stage.placements, request.ranks);
  }
  return stage;
}

}  // namespace

std::string_view name_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::kUnknown:
      return "unknown";
    case Exchange::kOneSided:
      return "one-sided";
    case Exchange::kCollective:
      return "collective";
  }
  return "?";
}

Count active_parameters(const Model& model) {
  if (!model.table || !model.shape || model.shape->experts == 0) return model.parameters;
  std::int64_t of_experts = 0;
  for (const layout::Parameter& parameter : model.table->parameters()) {
    if (parameter.name().find(".experts.") != std::string::npos) {
      of_experts += parameter.elements.value();
    }
  }
  const std::int64_t used = of_experts / model.shape->experts * model.shape->experts_per_token;
  return Count(model.parameters.value() - of_experts + used);
}

Result<Plan> make_plan(PlanRequest request) {
  SHARDLIGHT_TRY_STATUS(check(request));
  Plan plan;
  plan.bytes = state_bytes(request.precision, request.grad_dtype, request.optimizer);
  if (request.batch) {
    SHARDLIGHT_TRY(plan.activations,
                   activations(*request.model.shape, {.micro_batch = request.batch->micro_batch,
                                                      .sequence = request.batch->sequence,
                                                      .bytes_per_element = plan.bytes.parameter,
                                                      .checkpointing = request.checkpointing,
                                                      .rule = request.activation_rule}));
  }
  if (request.model.table) {
    SHARDLIGHT_TRY(plan.units, layout::build_units(*request.model.table,
                                                   {.bytes_min = request.unit_bytes.value_or(
                                                        layout::UnitOptions{}.bytes_min)}));
  }
  plan.compute_time = compute_time(request, plan.activations);
  plan.stage_one_sources = stage_one_sources(request.model.parameters, plan.bytes);
  plan.request = std::move(request);
  for (int number = 0; number < layout::kStages; ++number) {
    SHARDLIGHT_TRY(plan.stages[number], plan_stage(number, plan));
  }
  return plan;
}

}  // namespace shardlight::plan
