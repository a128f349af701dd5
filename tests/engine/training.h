// A few steps of a test model: on N ranks by the engine, or in one plain process that adds the same
// gradients in the same order and steps torch's own fused optimizer on whole parameters. Both give
// all there is to compare, bit for bit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models.h"
#include "shardlight/engine/engine.h"

namespace shardlight::engine {

struct Training {
  std::string model = "mlp";
  std::int64_t world = 1;
  std::int64_t steps = 3;
  Optimizer optimizer = AdamW{.lr = 1e-2};
  Options options;
};

struct Outcome {
  std::vector<std::vector<double>> losses;  // by rank, each micro-step
  std::vector<double> norms;                // by step
  // By "step/name": mean gradients after the last backward; parameters and states at the end.
  std::map<std::string, at::Tensor> gradients, parameters, states;
  std::vector<MemoryReport> memory;    // by rank, at the end
  std::vector<TrafficReport> traffic;  // by rank
};

// Ranks as threads.
Outcome train(const Training& run);
// The plain twin: linear order over ranks, micro-steps one after another or (`once`) each rank's
// own first.
Outcome train_plainly(const Training& run, bool once);

// "" if all losses, gradients, parameters and states have the same bits; else the first difference.
std::string difference(const Outcome& a, const Outcome& b);

}  // namespace shardlight::engine
