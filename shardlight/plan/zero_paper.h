// The tables and worked examples of the ZeRO paper (2020), recomputed from the ledger, with the
// paper's own measurements beside them. What is data from the paper says so.
// Pure; any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/plan/ledger.h"
#include "shardlight/plan/planner.h"

namespace shardlight::plan {

// Table 1: bytes per rank of model states, mixed-precision Adam, stages 1 to 3 (os, os+g, os+g+p).
struct Table1Column {
  Count parameters;
  bool analytic = false;  // computed by the paper too, never trained
};
struct Table1Cell {
  std::int64_t ranks = 1;
  Count parameters;
  int stage = 0;
  Share bytes;
};
struct Table1 {
  std::vector<std::int64_t> ranks;
  std::vector<Table1Column> columns;
  std::vector<Table1Cell> cells;  // by ranks, then column, then stage
};
Table1 zero_table1();

// Table 2: the largest model on 64-way data parallelism and 32 GB a device, times the degree of
// model parallelism.
struct Table2Row {
  std::int64_t model_parallel = 1;
  std::int64_t gpus = 64;
  // Largest model at stages 0 to 3: exactly, and as the paper has it, which multiplies the first
  // row's rounded value.
  std::array<Count, layout::kStages> exact;
  std::array<Count, layout::kStages> paper;
  // What the authors measured at stages 0 and 1 (the paper's data).
  std::array<Count, 2> measured;

  // measured / exact, below 1: the formula leaves out activations and buffers.
  double measured_ratio(int stage) const;
};
std::vector<Table2Row> zero_table2();

// The worked examples: A, B, C1, C2 of docs/memory.md. C1 and C2 extend the paper's formula to
// fp32 and SGD; the paper has no such rows.
const std::vector<std::string>& example_names();
// Errors (user, `example`): unknown.
Result<Plan> example_plan(const std::string& name);

}  // namespace shardlight::plan
