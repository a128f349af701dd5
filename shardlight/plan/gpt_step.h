// The memory that one micro-step of our GPT takes beside its model, operator by operator: what
// torch 2.13's autograd allocates and releases in fp32 on the CPU from the forward over the loss to
// the last gradient, in that order. From shapes alone; nothing in it is fitted. Not the engine's
// own memory: that is run_peak.h. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/parameter_table.h"

namespace shardlight::plan {

struct GptStep {
  std::int64_t vocabulary = 256;
  std::int64_t positions = 128;
  std::int64_t hidden = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  bool tied = true;
  bool dropout = false;          // any above 0; only of more than one sequence, head and token
  std::int64_t micro_batch = 1;  // sequences
  std::int64_t sequence = 1;     // tokens each, as the model sees them
  std::int64_t threads = 1;      // that a rank computes with: each has its piece of a workspace
};

enum class StepEventKind {
  kTake,     // a tensor is allocated
  kGive,     // and released
  kGradient  // it is a parameter's gradient from now on, and is the engine's to release
};

struct StepEvent {
  StepEventKind kind = StepEventKind::kTake;
  std::size_t tensor = 0;                // in the order of allocation, from 0
  Bytes bytes;                           // of the tensor
  layout::ParameterIndex parameter = 0;  // of a gradient, in the order of GPT-2's table
};

// In the order of time. Errors (user): a size below 1, by its field.
Result<std::vector<StepEvent>> gpt_step(const GptStep& step);

}  // namespace shardlight::plan
