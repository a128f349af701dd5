#include "shardlight/plan/traffic.h"

namespace shardlight::plan {
namespace {

// Ψ elements of `bytes` each, `times` over, of which a rank sends `part` / `whole`.
Share sent(Count parameters, std::int64_t bytes, std::int64_t times, std::int64_t part,
           std::int64_t whole) {
  return {static_cast<WideInteger>(parameters.value()) * bytes * times * part, whole};
}

}  // namespace

std::string_view name_of(ReduceSetting setting) {
  switch (setting) {
    case ReduceSetting::kDefault:
      return "default";
    case ReduceSetting::kOnce:
      return "once";
    case ReduceSetting::kEveryMicroStep:
      return "every-micro-step";
  }
  return "?";
}

std::vector<Pass> passes_of_step(const layout::Placements& placements, StateBytes bytes,
                                 std::int64_t accumulation_steps, ReduceSetting reduce) {
  const bool once = reduce == ReduceSetting::kOnce ||
                    (reduce == ReduceSetting::kDefault && !placements.gradients.sharded());
  const std::int64_t reductions = once ? 1 : accumulation_steps;
  std::vector<Pass> passes = {{Collective::kReduceScatter, reductions, bytes.gradient}};
  if (!placements.optimizer.sharded()) {
    // Every rank updates all parameters, so it needs all reduced gradients: an all-reduce.
    passes.push_back({Collective::kAllGather, reductions, bytes.gradient});
  } else {
    const std::int64_t gathers = placements.parameters.sharded() ? 2 * accumulation_steps : 1;
    passes.push_back({Collective::kAllGather, gathers, bytes.parameter});
  }
  return passes;
}

Traffic traffic_of(const std::vector<Pass>& passes, Count parameters, std::int64_t ranks) {
  Traffic traffic;
  for (const Pass& pass : passes) {
    traffic.elements_per_parameter += pass.times;
    traffic.bytes = traffic.bytes + sent(parameters, pass.bytes_per_element, pass.times, 1, 1);
    traffic.bytes_on_wire = traffic.bytes_on_wire +
                            sent(parameters, pass.bytes_per_element, pass.times, ranks - 1, ranks);
  }
  return traffic;
}

std::vector<StageOneSource> stage_one_sources(Count parameters, StateBytes bytes) {
  const Share gradients = sent(parameters, bytes.gradient, 1, 1, 1);
  const Share gathered = sent(parameters, bytes.parameter, 1, 1, 1);
  return {
      {"ZeRO paper, sections 1 and 7", "the volume of plain data parallelism", 2, gradients * 2},
      {"ZeRO paper, section 5.1; DeepSpeed", "gradients all-reduced, then parameters gathered", 3,
       gradients * 2 + gathered},
      {"Shardlight", "gradients reduce-scattered, then parameters gathered", 2,
       gradients + gathered}};
}

}  // namespace shardlight::plan
