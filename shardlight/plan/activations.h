// Activations of a transformer's training step, by two published rules that differ by 4.75x on
// GPT-2 1.5B; every report names the one it used. Formulas and what they leave out: docs/memory.md.
//
//   korthikanti: "Reducing Activation Recomputation in Large Transformer Models" (2022), section 4
//   and, outside the layers, 4.3; from 16 bits to e bytes an element by ours.
//   zero: the ZeRO paper's rule of thumb (2020, section 3.2).
// Pure; any thread.
#pragma once

#include <cstdint>

#include "shardlight/base/result.h"
#include "shardlight/base/units.h"
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
  Bytes layers;              // kept from the forward until the backward
  Bytes outside;             // embedding, last norm, logits; 0 by the zero rule
  Bytes recomputed;          // of the one layer that full recomputation holds at a time
  Bytes logit_gradient;      // fp32, at the start of the backward; 0 by the zero rule
  double extra_forward = 0;  // share of a forward computed again: 1 for full, 0 for none

  Bytes kept() const { return layers + outside; }
  Bytes temporary() const { return recomputed + logit_gradient; }
};

// Errors (user): micro_batch or sequence below 1 or above the model's positions; a number of bytes
// above 2^62; `checkpointing` selective with the zero rule, which does not tell its parts apart.
Result<Activations> activations(const TransformerShape& shape, const ActivationRequest& request);

}  // namespace shardlight::plan
