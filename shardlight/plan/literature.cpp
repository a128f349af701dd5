#include "shardlight/plan/literature.h"

namespace shardlight::plan {

CrossHostBytes cross_host_bytes(Bytes bytes, std::int64_t ranks, std::int64_t ranks_per_host) {
  const auto world = static_cast<double>(ranks);
  const double moved = static_cast<double>(bytes.value()) * (world - 1) / world;
  return {.replicated = 2 * moved,
          .fully_sharded = 3 * moved,
          .hybrid = 2 * moved / static_cast<double>(ranks_per_host)};
}

double intensity_of_parameters_and_gradients(std::int64_t sequence, std::int64_t batch) {
  return static_cast<double>(sequence) * static_cast<double>(batch);
}

double intensity_of_optimizer_states(std::int64_t sequence, std::int64_t batch) {
  return intensity_of_parameters_and_gradients(sequence, batch) / 4;
}

double intensity_of_checkpoints(std::int64_t hidden, std::int64_t layers_per_checkpoint) {
  return 24 * static_cast<double>(hidden) * static_cast<double>(layers_per_checkpoint);
}

double bandwidth_efficiency(double intensity, double bytes_per_second, double peak_flops) {
  const double fed = intensity * bytes_per_second;
  return fed / (fed + peak_flops);
}

double layer_activation_bytes(const ParallelLayer& layer, Checkpointing checkpointing) {
  const double sbh = layer.sequence * layer.batch * layer.hidden;
  const double attention = 5 * layer.heads * layer.sequence / layer.hidden;
  const double t = layer.tensor_parallel;
  switch (checkpointing) {
    case Checkpointing::kFull:
      return 2 * sbh;
    case Checkpointing::kSelective:
      return 34 * sbh / t;
    case Checkpointing::kNone:
      break;
  }
  if (layer.sequence_parallel) return sbh / t * (34 + attention);
  return sbh * (10 + 24 / t + attention / t);
}

}  // namespace shardlight::plan
