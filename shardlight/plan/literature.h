// Formulas of the ZeRO literature that the plan does not need yet and the product must reproduce:
// hybrid sharding across hosts, ZeRO-Infinity's arithmetic intensity, activations under tensor
// parallelism. Doubles in, doubles out, as in the papers. Pure; any thread.
#pragma once

#include <cstdint>

#include "shardlight/base/quantity.h"
#include "shardlight/plan/activations.h"

namespace shardlight::plan {

// Bytes that a rank exchanges with other hosts in a step, of a model of `bytes`, on `ranks` ranks
// of which `ranks_per_host` share a host: Zhao et al., "PyTorch FSDP" (2023), section 3.2.2.
struct CrossHostBytes {
  double replicated = 0;     // 2M(W-1)/W
  double fully_sharded = 0;  // 3M(W-1)/W
  double hybrid = 0;         // 2M(W-1)/(GW): sharded within a host, replicated across
};
CrossHostBytes cross_host_bytes(Bytes bytes, std::int64_t ranks, std::int64_t ranks_per_host);

// Operations for each byte moved: Rajbhandari et al., "ZeRO-Infinity" (2021), section 4.1.
double intensity_of_parameters_and_gradients(std::int64_t sequence, std::int64_t batch);
double intensity_of_optimizer_states(std::int64_t sequence, std::int64_t batch);
double intensity_of_checkpoints(std::int64_t hidden, std::int64_t layers_per_checkpoint);
// Share of `peak_flops` that is left where bytes come at `bytes_per_second` and nothing overlaps:
// ait x bw / (ait x bw + peak).
double bandwidth_efficiency(double intensity, double bytes_per_second, double peak_flops);

// 16-bit activations of one layer under tensor parallelism of degree t (Korthikanti et al. 2022,
// table 2): sbh(10 + 24/t + 5as/(ht)); with sequence parallelism sbh/t (34 + 5as/h), with selective
// recomputation too 34sbh/t, with full recomputation 2sbh.
struct ParallelLayer {
  double sequence = 1, batch = 1, hidden = 1, heads = 1;
  double tensor_parallel = 1;
  bool sequence_parallel = false;
};
// Selective recomputation is published with sequence parallelism or with t = 1 alone, and taken so.
double layer_activation_bytes(const ParallelLayer& layer, Checkpointing checkpointing);

}  // namespace shardlight::plan
