// All that is known of a training run before it starts: the config with what the data says filled
// in, the corpus and which sequences are drawn from it, the model's table, the plan. Reads files;
// needs no torch, so the program that starts the ranks refuses what is wrong before it does.
// Owns the corpus; read-only once made, so any number of threads may use it.
#pragma once

#include <memory>

#include "shardlight/cli/train/read_config.h"
#include "shardlight/comm/place.h"
#include "shardlight/data/sampler.h"
#include "shardlight/plan/planner.h"

namespace shardlight::cli {

struct Preparation {
  TrainRequest request;  // complete: positions, vocabulary, ranks and reduce are settled
  std::unique_ptr<data::Corpus> corpus;
  data::Sampler sampler;
  plan::Plan plan;
  std::vector<std::int64_t> prompt;  // of the sample; at least one token

  const TrainConfig& config() const { return request.config; }
  std::int64_t tokens_per_step() const;  // of all ranks
};

// `place`: of the process that asks; where a launcher has started it, the ranks are the launcher's.
// Errors (user): by the setting, its flag or the data's file; environment errors of reading.
Result<Preparation> prepare(TrainRequest request, const comm::Place& place);

}  // namespace shardlight::cli
