// Bytes that a parameter costs in each state: by precision, gradient dtype and optimizer. What the
// states are multiplied by is the ledger's (ledger.h). Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "shardlight/base/result.h"

namespace shardlight::plan {

enum class Precision {
  kMixed,  // parameters in 16 bits (fp16 or bf16), an fp32 master copy beside them
  kFp32,
};

enum class Optimizer {
  kAdam,         // two fp32 moments; AdamW costs the same
  kSgdMomentum,  // one fp32 momentum buffer
  kSgd,          // no state
};

// What the kept gradient is stored in, and sent as.
enum class GradientDtype {
  kCompute,  // the dtype of the parameters: the paper's 16 bytes a parameter
  kFp32,     // 18 bytes a parameter with mixed precision and Adam
};

// The names the command line and reports use: "mixed", "sgd-momentum", ….
std::string_view name_of(Precision precision);
std::string_view name_of(Optimizer optimizer);
std::string_view name_of(GradientDtype dtype);

struct StateBytes {
  std::int64_t parameter = 0;  // b: 2 mixed, 4 fp32
  std::int64_t gradient = 0;   // b, or 4
  std::int64_t optimizer = 0;  // K: 8 Adam, 4 SGD with momentum, 0 SGD, 4 more for the master

  std::int64_t total() const { return parameter + gradient + optimizer; }
};

// Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"
// (2020), section 3.1.
StateBytes state_bytes(Precision precision, GradientDtype gradients, Optimizer optimizer);

}  // namespace shardlight::plan
