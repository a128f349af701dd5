// The step: from reduced gradients to published parameters. One path for every placement.
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/engine_impl.h"

namespace shardlight::engine {

double Engine::Impl::mean_factor() const {
  return 1.0 / (static_cast<double>(layout_->world) * static_cast<double>(options_.accumulation) *
                (loss_scale_ ? loss_scale_->value() : 1));
}

Status Engine::Impl::check_step() const {
  SHARDLIGHT_TRY_STATUS(check());
  if (gradients_->micro_steps() != options_.accumulation) {
    return user_error("accumulation", std::to_string(options_.accumulation),
                      "step() after as many backward passes; there were " +
                          std::to_string(gradients_->micro_steps()));
  }
  if (const auto held = residency_->held()) {
    return user_error("gathered", "a scope over unit " + layout_->units[*held].name,
                      "no scope while step() changes the parameters");
  }
  for (const auto& parameter : parameters_) {
    if (!intact(*parameter)) {
      return user_error("parameter " + parameter->name,
                        "with another memory, shape or dtype than before",
                        "one that is changed in place: the engine keeps its memory");
    }
    if (parameter->tensor.requires_grad() && !layout_->units[parameter->unit].trainable) {
      return user_error("parameter " + parameter->name, "unfrozen after the engine was made",
                        "frozen until Engine::refresh(model), between steps, takes it in");
    }
  }
  return {};
}

// Of the mean gradient: most units hold raw sums, those that the user changed hold means.
Result<NormAgreement> Engine::Impl::norm(bool some_are_means) {
  ExactSum squares;
  ExactSum squares_of_means;
  bool finite = true;
  for (layout::UnitIndex unit = 0; unit < layout_->units.size(); ++unit) {
    if (!layout_->units[unit].trainable) continue;
    SHARDLIGHT_TRY(const auto slice, gradients_->slice(unit));
    ExactSum& sum = gradients_->is_mean(unit) ? squares_of_means : squares;
    finite = sum.add_squares(slice) && finite;
  }
  SHARDLIGHT_TRY(auto agreed, agree_on_norm(*transport_, squares, finite, deadline()));
  agreed.norm *= mean_factor();
  if (!some_are_means) return agreed;
  SHARDLIGHT_TRY(const auto means,
                 agree_on_norm(*transport_, squares_of_means, finite, deadline()));
  agreed.norm = std::hypot(agreed.norm, means.norm);
  return agreed;
}

Result<StepReport> Engine::Impl::step() {
  SHARDLIGHT_TRY_STATUS(check_step());
  auto report = step_all();
  // Half a step is not undone.
  if (!report) error_ = report.error();
  return report;
}

Result<StepReport> Engine::Impl::step_all() {
  const at::DisableRecordFunctionGuard unrecorded;
  const std::vector<bool>& used = gradients_->used();
  SHARDLIGHT_TRY(const bool gradients_edited, views_->take_edits(used));
  const double lr_factor = options_.lr_schedule ? options_.lr_schedule(steps_) : 1;
  if (!std::isfinite(lr_factor) || lr_factor < 0) {
    return user_error("lr_schedule", std::to_string(lr_factor), "a finite factor, 0 or more");
  }
  SHARDLIGHT_TRY(const std::uint64_t settings, states_->settings_hash());
  const StepFlags mine = {.parameters_edited = residency_->edited(),
                          .gradients_edited = gradients_edited,
                          .lr_factor = lr_factor,
                          .optimizer_settings = settings};
  SHARDLIGHT_TRY_STATUS(residency_->settle_gathers());
  // No rank changes what others may still read: all have ended forward and backward when this
  // returns.
  SHARDLIGHT_TRY(const StepFlags flags, agree(*transport_, mine, deadline()));
  if (flags.parameters_edited) {
    SHARDLIGHT_TRY(const auto edited, residency_->settle_edits());
    for (const layout::UnitIndex unit : edited) states_->adopt(unit);
  }
  if (flags.gradients_edited) SHARDLIGHT_TRY_STATUS(views_->settle_edits());
  SHARDLIGHT_TRY(const NormAgreement agreed, norm(flags.gradients_edited));

  StepReport report{.step = ++steps_,
                    .lr_factor = lr_factor,
                    .gradient_norm = agreed.norm,
                    .skipped = !agreed.finite,
                    .loss_scale = loss_scale_ ? loss_scale_->value() : 1};
  StepFactors factors{.mean = mean_factor(), .lr = report.lr_factor};
  // As torch.nn.utils.clip_grad_norm_ has it.
  if (options_.clip_norm) factors.clip = std::min(1.0, *options_.clip_norm / (agreed.norm + 1e-6));
  if (!report.skipped) SHARDLIGHT_TRY_STATUS(step_units(factors, used));
  if (steps_ <= options_.sanity_steps) SHARDLIGHT_TRY_STATUS(compare_replicas());
  if (options_.synchronize_buffers) SHARDLIGHT_TRY_STATUS(broadcast_all(buffers_));
  if (loss_scale_) loss_scale_->end_step(report.skipped);
  views_->end_step();
  SHARDLIGHT_TRY_STATUS(gradients_->end_step());
  residency_->look_ahead();
  seed_micro_step();
  return report;
}

// Where every rank steps everything, nothing but equal arithmetic keeps them equal.
Status Engine::Impl::compare_replicas() {
  if (layout_->placements.optimizer.sharded()) return {};
  std::vector<std::span<const std::byte>> values;
  for (layout::UnitIndex unit = 0; unit < layout_->units.size(); ++unit) {
    values.emplace_back(residency_->stepped(unit));
  }
  SHARDLIGHT_TRY(const auto differs, first_difference(*transport_, values, deadline()));
  if (!differs) return {};
  return user_error(
      "unit " + layout_->units[*differs].name,
      "with other values on some ranks than on others after step " + std::to_string(steps_),
      "the same processor, library versions and number of threads on all ranks");
}

Status Engine::Impl::step_units(const StepFactors& factors, const std::vector<bool>& used) {
  std::vector<layout::UnitIndex> waiting;
  for (layout::UnitIndex unit = 0; unit < layout_->units.size(); ++unit) {
    const auto& members = layout_->units[unit].parameters;
    const bool any = std::ranges::any_of(
        members, [&](const layout::PlacedParameter& member) { return used[member.parameter]; });
    if (!layout_->units[unit].trainable || !any) continue;
    SHARDLIGHT_TRY(const auto gradients, gradients_->stepped(unit));
    StepFactors of_unit = factors;
    if (gradients_->is_mean(unit)) of_unit.mean = 1;
    SHARDLIGHT_TRY_STATUS(states_->step(unit, gradients, of_unit, used));
    if (states_->by_unit()) {
      SHARDLIGHT_TRY_STATUS(publish(unit));
    } else {
      waiting.push_back(unit);
    }
  }
  SHARDLIGHT_TRY_STATUS(states_->end_step(factors));
  for (const layout::UnitIndex unit : waiting) SHARDLIGHT_TRY_STATUS(publish(unit));
  return {};
}

Status Engine::Impl::publish(layout::UnitIndex unit) {
  states_->write(unit);
  return residency_->stepped_done(unit);
}

Result<at::Tensor> Engine::Impl::gradient(const ManagedTensor& parameter) {
  if (!parameter.tensor.requires_grad()) {
    return user_error("parameter " + parameter.name, "frozen", "one that requires a gradient");
  }
  return views_->read(parameter);
}

}  // namespace shardlight::engine
