// Activations of a transformer's training step, by two published rules that differ by 4.75x on
// GPT-2 1.5B; every report names the one it used. Formulas and what they leave out: docs/memory.md.
//
//   korthikanti: "Reducing Activation Recomputation in Large Transformer Models" (2022), section 4
//   and, outside the layers, 4.3; from 16 bits to e bytes an element by ours.
//   zero: the ZeRO paper's rule of thumb (2020, section 3.2).
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"
#include "shardlight/plan/model.h"

namespace shardlight::plan {

enum class Checkpointing { kNone, kSelective, kFull };
enum class ActivationRule { kKorthikanti, kZero };
std::string_view name_of(Checkpointing checkpointing);
std::string_view name_of(ActivationRule rule);

struct ActivationRequest {
  std::int64_t micro_batch = 1;  // sequences a rank and micro-step
  std::int64_t sequence = 1;     // tokens
  std::int64_t bytes_per_element = 2;
  Checkpointing checkpointing = Checkpointing::kNone;
  ActivationRule rule = ActivationRule::kKorthikanti;
};

struct Activations {
  Bytes layers;   // kept from the forward until the backward
  Bytes outside;  // embedding, last norm, logits; within the layers' line by the zero rule
  // What the one layer being recomputed holds, and the fp32 gradient of the logits at the start of
  // the backward; the zero rule does not know them.
  std::optional<Bytes> recomputed;
  std::optional<Bytes> logit_gradient;
  double extra_forward = 0;  // share of a forward computed again: 1 for full, 0 for none

  Bytes kept() const { return layers + outside; }
  std::optional<Bytes> temporary() const {
    if (!recomputed || !logit_gradient) return std::nullopt;
    return *recomputed + *logit_gradient;
  }
};

// Errors (user): `micro_batch` or `sequence` below 1, the latter above the model's positions;
// `micro_batch` where the activations exceed 2^62 bytes; `checkpointing` selective with the zero
// rule, which does not tell the parts of a layer apart.
Result<Activations> activations(const TransformerShape& shape, const ActivationRequest& request);

}  // namespace shardlight::plan
