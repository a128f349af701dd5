#include "shardlight/cli/train/settings.h"

#include <algorithm>

namespace shardlight::cli {
namespace {

constexpr double kMost = 1e9;              // of counts that nobody needs more of
constexpr double kLargestSeed = 9.007e15;  // whole in a double, so in any JSON reader
constexpr double kMostBytes = 1e15;

template <auto kSection, auto kMember>
SettingField field(TrainConfig& config) {
  return &(config.*kSection.*kMember);
}
template <auto kMember>
SettingField field(TrainConfig& config) {
  return &(config.*kMember);
}
template <auto kMember>
SettingField placement(TrainConfig& config) {
  return &(config.zero.placements.*kMember);
}

using Config = TrainConfig;
using Rows = std::vector<Setting>;

const std::vector<std::string> kPlacements = {"by stage", "replicated", "sharded"};
const SettingNeeds kAdams = {"optimizer.name", {"adamw", "adam"}};
const SettingNeeds kCosine = {"schedule.name", {"cosine"}};

Rows model_rows() {
  constexpr auto kModel = &Config::model;
  return {
      {"model.layers", "transformer blocks", field<kModel, &ModelConfig::layers>, {1, 1000}},
      {"model.heads", "attention heads", field<kModel, &ModelConfig::heads>, {1, 1000}},
      {"model.hidden",
       "width, a multiple of the heads",
       field<kModel, &ModelConfig::hidden>,
       {1, 1e6}},
      {"model.positions",
       "longest sequence; 0: the batch's",
       field<kModel, &ModelConfig::positions>,
       {0, 1e6}},
      {"model.vocabulary",
       "tokens it knows; 0: the data's",
       field<kModel, &ModelConfig::vocabulary>,
       {0, 1 << 24}},
      {"model.tied", "output weight is the embedding's", field<kModel, &ModelConfig::tied>},
      {"model.dropout",
       "share zeroed in training",
       field<kModel, &ModelConfig::dropout>,
       {0, 0.99}},
  };
}

Rows data_rows() {
  constexpr auto kData = &Config::data;
  constexpr auto kBatch = &Config::batch;
  return {
      {.path = "data.files",
       .help = "text files, gzipped or not, as bytes; or token files .u16, .u32",
       .field = field<kData, &DataConfig::files>,
       .flag = "--data",
       .argument = "FILE,…"},
      {"data.held_out",
       "share at the end that is not trained on",
       field<kData, &DataConfig::held_out>,
       {0.0001, 0.9}},
      {"data.held_out_sequences",
       "of it, for the held-out loss",
       field<kData, &DataConfig::held_out_sequences>,
       {1, kMost}},
      {.path = "batch.micro_batch",
       .help = "sequences a rank and micro-step",
       .field = field<kBatch, &BatchConfig::micro_batch>,
       .range = {1, 1e6}},
      {.path = "batch.sequence",
       .help = "tokens a sequence",
       .field = field<kBatch, &BatchConfig::sequence>,
       .range = {1, 1e6}},
      {.path = "batch.accumulation",
       .help = "micro-steps a step",
       .field = field<kBatch, &BatchConfig::accumulation>,
       .range = {1, 1e6},
       .flag = "--accumulation",
       .argument = "N"},
  };
}

Rows optimizer_rows() {
  constexpr auto kOptimizer = &Config::optimizer;
  constexpr auto kSchedule = &Config::schedule;
  return {
      {.path = "optimizer.name",
       .help = "torch's optimizer of that name",
       .field = field<kOptimizer, &OptimizerConfig::name>,
       .choices = {"adamw", "adam", "sgd"}},
      {"optimizer.lr", "learning rate", field<kOptimizer, &OptimizerConfig::lr>, {0, 1e3}},
      {.path = "optimizer.betas",
       .help = "decay of the two moments",
       .field = field<kOptimizer, &OptimizerConfig::betas>,
       .range = {0, 0.999999},
       .needs = kAdams},
      {.path = "optimizer.eps",
       .help = "added to the second moment's root",
       .field = field<kOptimizer, &OptimizerConfig::eps>,
       .range = {0, 1},
       .needs = kAdams},
      {.path = "optimizer.momentum",
       .help = "of sgd",
       .field = field<kOptimizer, &OptimizerConfig::momentum>,
       .range = {0, 1},
       .needs = {"optimizer.name", {"sgd"}}},
      {"optimizer.weight_decay",
       "a step, decoupled for adamw",
       field<kOptimizer, &OptimizerConfig::weight_decay>,
       {0, 1e3}},
      {"optimizer.groups",
       "parameters that have an lr or weight_decay of their own",
       field<kOptimizer, &OptimizerConfig::groups>,
       {0, 1e3}},
      {.path = "schedule.name",
       .help = "of the learning rate",
       .field = field<kSchedule, &ScheduleConfig::name>,
       .choices = {"cosine", "constant"}},
      {.path = "schedule.warmup",
       .help = "steps in which the rate rises",
       .field = field<kSchedule, &ScheduleConfig::warmup>,
       .range = {0, kMost},
       .needs = kCosine},
      {.path = "schedule.floor",
       .help = "share of the rate at the last step",
       .field = field<kSchedule, &ScheduleConfig::floor>,
       .range = {0, 1},
       .needs = kCosine},
  };
}

Rows placement_rows() {
  constexpr auto kZero = &Config::zero;
  return {
      {.path = "zero.stage",
       .help = "1 shards optimizer states, 2 gradients too, 3 parameters too",
       .field = field<kZero, &ZeroConfig::stage>,
       .range = {0, 3},
       .flag = "--stage",
       .argument = "0..3"},
      {.path = "zero.placements.parameters",
       .help = "instead of the stage's",
       .field = placement<&PlacementsConfig::parameters>,
       .choices = kPlacements},
      {.path = "zero.placements.gradients",
       .help = "instead of the stage's",
       .field = placement<&PlacementsConfig::gradients>,
       .choices = kPlacements},
      {.path = "zero.placements.optimizer",
       .help = "instead of the stage's",
       .field = placement<&PlacementsConfig::optimizer>,
       .choices = kPlacements},
      {"zero.shared_units", "read sharded parameters where all ranks of the host share them",
       field<kZero, &ZeroConfig::shared_units>},
  };
}

Rows exchange_rows() {
  constexpr auto kZero = &Config::zero;
  return {
      {.path = "zero.reduce",
       .help = "when gradients of micro-steps are reduced",
       .field = field<kZero, &ZeroConfig::reduce>,
       .choices = {"default", "once", "every-micro-step"}},
      {.path = "zero.order",
       .help = "in which ranks are added",
       .field = field<kZero, &ZeroConfig::order>,
       .choices = {"linear", "grouped", "tree"},
       .needs = {"zero.reproducible", {"false"}}},
      {.path = "zero.group",
       .help = "ranks a group of the order",
       .field = field<kZero, &ZeroConfig::group>,
       .range = {1, 1 << 20},
       .needs = {"zero.order", {"grouped"}}},
      {.path = "zero.reproducible",
       .help = "the same bits for any split of the batch; 1 thread a rank unless threads is set",
       .field = field<kZero, &ZeroConfig::reproducible>,
       .flag = "--reproducible"},
      {"zero.clip_norm",
       "most of the gradients' global norm",
       field<kZero, &ZeroConfig::clip_norm>,
       {1e-12, 1e12}},
      {"zero.unit_bytes",
       "least that is gathered together",
       field<kZero, &ZeroConfig::unit_bytes>,
       {0, kMostBytes}},
      {"zero.bucket_bytes",
       "gradients that may wait for their turn",
       field<kZero, &ZeroConfig::bucket_bytes>,
       {0, kMostBytes}},
      {"zero.prefetch_bytes",
       "of the gathered ones, may be fetched ahead",
       field<kZero, &ZeroConfig::prefetch_bytes>,
       {0, kMostBytes}},
      {"zero.gathered_bytes",
       "most that is ever gathered; none: the two largest units",
       field<kZero, &ZeroConfig::gathered_bytes>,
       {1, kMostBytes}},
      {"zero.retain", "keep units gathered while there is room", field<kZero, &ZeroConfig::retain>},
  };
}

Rows run_rows() {
  constexpr auto kSample = &Config::sample;
  return {
      {.path = "ranks",
       .help = "processes; of mpirun, torchrun or shardlight launch those that it started",
       .field = field<&Config::ranks>,
       .range = {1, 1024},
       .flag = "--ranks",
       .argument = "N"},
      {.path = "transport",
       .help = "how ranks exchange: processes of a host, threads of one process, MPI",
       .field = field<&Config::transport>,
       .choices = {"shm", "threads", "mpi"},
       .flag = "--transport",
       .argument = "NAME"},
      {"threads",
       "a rank's; 0: the cores divided by the ranks",
       field<&Config::threads>,
       {0, 1024}},
      {.path = "steps",
       .help = "to train",
       .field = field<&Config::steps>,
       .range = {0, kMost},
       .flag = "--steps",
       .argument = "N"},
      {.path = "seed",
       .help = "of weights, batches, dropout and sample",
       .field = field<&Config::seed>,
       .range = {0, kLargestSeed},
       .flag = "--seed",
       .argument = "N"},
      {"log_every",
       "steps a line, where the output is no terminal",
       field<&Config::log_every>,
       {1, kMost}},
      {.path = "out",
       .help = "folder for run.jsonl and summary.json; empty: none",
       .field = field<&Config::out>,
       .flag = "--out",
       .argument = "DIR"},
      {"sample.tokens",
       "that the trained model writes",
       field<kSample, &SampleConfig::tokens>,
       {0, 1e6}},
      {"sample.temperature",
       "0: always the likeliest",
       field<kSample, &SampleConfig::temperature>,
       {0, 100}},
      {"sample.prompt", "what it goes on from; only of text",
       field<kSample, &SampleConfig::prompt>},
  };
}

}  // namespace

const std::vector<Setting>& train_settings() {
  static const Rows kRows = [] {
    Rows all;
    for (Rows& rows : std::vector<Rows>{model_rows(), data_rows(), optimizer_rows(),
                                        placement_rows(), exchange_rows(), run_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kRows;
}

const Setting* find_setting(const std::string& path) {
  const auto& all = train_settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Setting& row) { return row.path == path; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace shardlight::cli
