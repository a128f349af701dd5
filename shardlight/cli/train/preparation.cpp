#include "shardlight/cli/train/preparation.h"

#include <fmt/format.h>

#include <utility>

#include "shardlight/cli/train/launchers.h"
#include "shardlight/cli/train/zero_of_run.h"
#include "shardlight/comm/shared/shared_layout.h"
#include "shardlight/plan/hf_config.h"

namespace shardlight::cli {
namespace {

Failure within(Error error, const std::string& prefix, const std::string& joint) {
  if (error.category() != ErrorCategory::kUser) return Failure(std::move(error));
  return Failure(std::move(error).within(prefix, joint));
}

Status take_launchers_ranks(TrainRequest& request, const comm::Place& place) {
  TrainConfig& config = request.config;
  if (config.transport == "mpi" && !starts_mpi(place)) {
    return user_error("transport", config.transport,
                      "shm or threads, or mpi under mpirun: mpirun -n N shardlight train …");
  }
  if (place.launcher.empty()) return {};
  // One process was started for ranks that are threads of it, as `shardlight train` does.
  if (config.transport == "threads" && place.world == 1) return {};
  if (config.ranks != place.world && request.origin("ranks") == SettingOrigin::kFlag) {
    return user_error(
        "--ranks", fmt::to_string(config.ranks),
        fmt::format("none, or {}: that many were started by {}", place.world, place.launcher));
  }
  if (config.transport == "threads") {
    return user_error(
        "transport", config.transport,
        fmt::format("another one: {} has started the ranks as processes", place.launcher));
  }
  if (config.ranks != place.world) request.origins["ranks"] = SettingOrigin::kLauncher;
  config.ranks = place.world;
  return {};
}

// Once they are known.
Status check_ranks(const TrainRequest& request) {
  const TrainConfig& config = request.config;
  if (config.transport == "mpi" || config.ranks <= comm::kMaxSharedRanks) return {};
  const bool by_flag = request.origin("ranks") == SettingOrigin::kFlag;
  return user_error(
      by_flag ? "--ranks" : "ranks", fmt::to_string(config.ranks),
      fmt::format("1 to {} where transport is {}", comm::kMaxSharedRanks, config.transport));
}

Status take_datas_vocabulary(TrainConfig& config, const data::Corpus& corpus) {
  ModelConfig& model = config.model;
  if (model.vocabulary == 0) model.vocabulary = corpus.vocabulary();
  if (model.vocabulary >= corpus.vocabulary()) return {};
  return user_error("model.vocabulary", fmt::to_string(model.vocabulary),
                    fmt::format("0, or the data's {} and more", corpus.vocabulary()));
}

// The model has a GPT-2's table (model/gpt.h), which the plan knows.
Result<plan::Model> table_of(const ModelConfig& model) {
  const std::string json = fmt::format(
      R"({{"model_type": "gpt2", "vocab_size": {}, "n_positions": {}, "n_embd": {}, )"
      R"("n_layer": {}, "n_head": {}, "tie_word_embeddings": {}}})",
      model.vocabulary, model.positions, model.hidden, model.layers, model.heads, model.tied);
  auto table = plan::model_from_hf_config(json, "gpt");
  if (!table) return within(std::move(table).error(), "model", ": ");
  return table;
}

plan::Optimizer plan_optimizer(const OptimizerConfig& optimizer) {
  if (optimizer.name != "sgd") return plan::Optimizer::kAdam;
  return optimizer.momentum > 0 ? plan::Optimizer::kSgdMomentum : plan::Optimizer::kSgd;
}

Result<plan::Plan> plan_of(const TrainConfig& config) {
  plan::PlanRequest request;
  SHARDLIGHT_TRY(request.model, table_of(config.model));
  request.ranks = config.ranks;
  request.precision = plan::Precision::kFp32;
  request.optimizer = plan_optimizer(config.optimizer);
  request.accumulation_steps = config.batch.accumulation;
  request.reduce = reduce_setting_of(config.zero);
  request.batch = {.micro_batch = config.batch.micro_batch, .sequence = config.batch.sequence};
  request.unit_bytes = config.zero.unit_bytes;
  request.exchange = plan::Exchange::kOneSided;
  return plan::make_plan(std::move(request));
}

// It decides the bits of the losses where there is more than one micro-step.
Status settle_reduce(TrainConfig& config) {
  if (config.zero.reduce != ZeroConfig().reduce || config.batch.accumulation == 1) return {};
  SHARDLIGHT_TRY(const auto placements, placements_of_run(config));
  config.zero.reduce = default_reduce(config, placements);
  return {};
}

Result<std::vector<std::int64_t>> prompt_of(const SampleConfig& sample,
                                            const data::Corpus& corpus) {
  if (!corpus.is_text() && !sample.prompt.empty()) {
    return user_error("sample.prompt", sample.prompt, "none: the data are token files");
  }
  if (sample.prompt.empty()) return std::vector<std::int64_t>{corpus.is_text() ? '\n' : 0};
  std::vector<std::int64_t> tokens;
  for (const char byte : sample.prompt) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

}  // namespace

std::int64_t Preparation::tokens_per_step() const {
  const BatchConfig& batch = config().batch;
  return config().ranks * batch.accumulation * batch.micro_batch * batch.sequence;
}

Result<Preparation> prepare(TrainRequest request, const comm::Place& place) {
  TrainConfig& config = request.config;
  SHARDLIGHT_TRY_STATUS(take_launchers_ranks(request, place));
  SHARDLIGHT_TRY_STATUS(check_ranks(request));
  auto opened = data::Corpus::open(config.data.files);
  if (!opened) return within(std::move(opened).error(), "data.files", ": ");
  auto corpus = std::make_unique<data::Corpus>(std::move(*opened));
  if (config.model.positions == 0) config.model.positions = config.batch.sequence;
  SHARDLIGHT_TRY_STATUS(take_datas_vocabulary(config, *corpus));
  auto sampler = data::Sampler::create(*corpus, {.seed = static_cast<std::uint64_t>(config.seed),
                                                 .sequence = config.batch.sequence,
                                                 .held_out = config.data.held_out});
  if (!sampler) return within(std::move(sampler).error(), "batch", ".");
  SHARDLIGHT_TRY(auto prompt, prompt_of(config.sample, *corpus));
  // The plan compares stages, each with its own default; the run has one.
  SHARDLIGHT_TRY(auto plan, plan_of(config));
  SHARDLIGHT_TRY_STATUS(settle_reduce(config));
  return Preparation{.request = std::move(request),
                     .corpus = std::move(corpus),
                     .sampler = *sampler,
                     .plan = std::move(plan),
                     .prompt = std::move(prompt)};
}

}  // namespace shardlight::cli
