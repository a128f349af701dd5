// What `shardlight train` is told, as plain values: the config file's keys are these fields, and
// settings.h says of each what is allowed and what it is for. Without torch; the engine's own
// structs are filled from it in train_rank/. A value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/data/corpus.h"

namespace shardlight::cli {

struct ModelConfig {
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t hidden = 128;
  std::int64_t positions = 0;   // 0: the batch's sequence
  std::int64_t vocabulary = 0;  // 0: the data's
  bool tied = true;
  double dropout = 0;
};

struct DataConfig {
  std::vector<std::string> files = {data::kDefaultText};
  double held_out = 0.05;
  std::int64_t held_out_sequences = 64;
};

struct BatchConfig {
  std::int64_t micro_batch = 8;
  std::int64_t sequence = 128;
  std::int64_t accumulation = 1;
};

// Parameters that differ in something from the rest.
struct GroupConfig {
  std::vector<std::string> parameters;  // patterns of names, as a shell's
  std::optional<double> lr;
  std::optional<double> weight_decay;

  bool operator==(const GroupConfig&) const = default;
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0.01;
  std::vector<GroupConfig> groups;
};

struct ScheduleConfig {
  std::string name = "cosine";
  std::int64_t warmup = 0;
  double floor = 0.1;
};

struct PlacementsConfig {
  std::string parameters = "by stage";
  std::string gradients = "by stage";
  std::string optimizer = "by stage";
};

struct ZeroConfig {
  std::int64_t stage = 0;
  PlacementsConfig placements;
  bool shared_units = false;
  std::string reduce = "default";
  std::string order = "linear";
  std::int64_t group = 2;
  bool reproducible = false;
  std::optional<double> clip_norm;
  Bytes unit_bytes{1 << 20};
  Bytes bucket_bytes{0};
  Bytes prefetch_bytes{0};
  std::optional<Bytes> gathered_bytes;
  bool retain = true;
};

struct SampleConfig {
  std::int64_t tokens = 300;
  double temperature = 0.8;
  std::string prompt;
};

struct TrainConfig {
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  ZeroConfig zero;
  std::int64_t ranks = 1;
  std::string transport = "shm";
  std::int64_t threads = 0;  // a rank; 0: the cores divided by the ranks
  std::int64_t steps = 100;
  std::int64_t seed = 1;
  std::int64_t log_every = 10;
  std::string out;
  SampleConfig sample;
};

}  // namespace shardlight::cli
