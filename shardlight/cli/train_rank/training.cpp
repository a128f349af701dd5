#include "shardlight/cli/train_rank/training.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <new>
#include <optional>
#include <ostream>
#include <string_view>

#include "shardlight/base/arithmetic.h"
#include "shardlight/base/printable.h"
#include "shardlight/cli/output.h"
#include "shardlight/cli/train/progress.h"
#include "shardlight/cli/train/rank_values.h"
#include "shardlight/cli/train/settings.h"
#include "shardlight/cli/train/start_report.h"
#include "shardlight/cli/train/summary.h"
#include "shardlight/cli/train_rank/engine_options.h"
#include "shardlight/engine/engine.h"
#include "shardlight/io/output_file.h"
#include "shardlight/model/gpt.h"

namespace shardlight::cli {
namespace {

template <class T>
T need(Result<T> result) {
  if (!result) throw Error(std::move(result).error());
  return std::move(*result);
}
void need(Status status) {
  if (!status) throw Error(std::move(status).error());
}

at::Tensor tensor_of(data::TokenBatch& batch) {
  return at::from_blob(batch.tokens.data(), {batch.rows, batch.columns}, at::kLong);
}

// Since `before`, but for the percentiles, which are of all calls.
TimesEnd times_of(const engine::CallTimes& times, const engine::CallTimes& before) {
  return {.calls = times.calls - before.calls,
          .half = times.p50,
          .most = times.p99,
          .total = times.total - before.total};
}

// How torch's allocators begin when the system gives them no more.
constexpr std::string_view kNoMemory = "can't allocate memory: ";

Error no_memory(const std::string& detail) {
  return Error::environment({.operation = "training"}, "not enough memory: " + detail,
                            Unusable::kJob);
}

// A user error of the engine by the config's path where it names one of its options.
Error by_setting(Error error) {
  if (error.category() != ErrorCategory::kUser) return error;
  const bool known = find_setting("zero." + error.field()) != nullptr;
  return known ? std::move(error).within("zero") : error;
}

class Training {
 public:
  Training(const RankRun& run, const engine::Ranks& ranks)
      : run_(run),
        ranks_(ranks),
        config_(run.preparation.config()),
        progress_(run.out, options_of(run), clock_) {
    if (config_.out.empty() || !shows()) return;
    need(io::make_folder(config_.out));
    records_ = need(io::OutputFile::create_alone(config_.out + "/run.jsonl"));
    if (!records_) {
      throw Error::user("out", config_.out, "a folder that no other run is writing to");
    }
  }

  // What torch threw, as what it comes from: an operator hides the engine's own error, which the
  // engine keeps, and one without memory has met no bug.
  Error reason_of(const c10::Error& thrown) {
    const std::string text = thrown.what_without_backtrace();
    if (const auto at = text.find(kNoMemory); at != std::string::npos) {
      return no_memory(text.substr(at + kNoMemory.size()));
    }
    const auto kept = engine_ && !in_step_ ? kept_error() : std::nullopt;
    return kept ? *kept : Error::bug(text);
  }

  void run() {
    if (shows()) {
      run_.out << as_text(start_report(run_.preparation), style())
               << "\nEach rank computes with its share of the cores: rank 0 with "
               << run_.cores.text() << ".\n\n";
      need(flush_output(run_.out));
    }
    start_engine();
    end_.cores = run_.cores.text();
    end_.held_out_before = held_out_loss();
    const engine::TrafficReport before = engine_->traffic();
    const auto begin = clock_.now();
    for (std::int64_t step = 0; step < config_.steps && !end_.interrupted; ++step) take_step(step);
    end_.seconds = clock_.now() - begin;
    if (shows()) need(progress_.finish());
    take_ends(before);
    end_.held_out_after = held_out_loss();
    end_.loss_hash = hash_.text();
    write_sample();
    if (shows()) show_end();
    engine_->close();
  }

 private:
  static ProgressOptions options_of(const RankRun& run) {
    return {.terminal = run.terminal,
            .steps = run.preparation.config().steps,
            .tokens_per_step = run.preparation.tokens_per_step(),
            .log_every = run.preparation.config().log_every};
  }

  bool shows() const { return ranks_.rank == Rank(0); }
  Style style() const { return {.colour = run_.colour}; }
  comm::Deadline deadline() const { return comm::Deadline(engine::Options().deadline); }

  // No step is made, as forward or backward has failed: the engine says so too, which is no reason.
  std::optional<Error> kept_error() {
    try {
      engine_->step();
    } catch (const Error& error) {
      if (error.field() != "accumulation" && error.field() != "backward") return error;
    }
    return std::nullopt;
  }

  void start_engine() {
    const ModelConfig& model = config_.model;
    model_ = std::make_shared<model::Gpt>(model::GptOptions{.vocabulary = model.vocabulary,
                                                            .positions = model.positions,
                                                            .hidden = model.hidden,
                                                            .layers = model.layers,
                                                            .heads = model.heads,
                                                            .tied = model.tied,
                                                            .dropout = model.dropout},
                                          static_cast<std::uint64_t>(config_.seed));
    engine::Options options = need(engine_options(config_));
    options.ranks = ranks_;
    engine_.emplace(model_, engine_optimizer(config_.optimizer), options);
  }

  // The mean over sequences of the held-out part; every rank takes its turns, and as many of them.
  double held_out_loss() {
    const at::NoGradGuard no_gradients;
    model_->eval();
    const std::int64_t rows = config_.batch.micro_batch;
    const std::int64_t count = divide_up(config_.data.held_out_sequences, rows);
    const std::int64_t world = ranks_.world;
    std::vector<double> own;
    for (std::int64_t turn = 0; turn < divide_up(count, world); ++turn) {
      const std::int64_t which = turn * world + ranks_.rank.value();
      auto batch =
          need(run_.preparation.sampler.held_out(which % count * rows, rows, count * rows));
      own.push_back(model_->loss(tensor_of(batch)).item<double>());
    }
    model_->train();
    const auto all = need(values_of_ranks(engine_->transport(), own, deadline()));
    double sum = 0;
    for (std::int64_t which = 0; which < count; ++which) sum += all[which % world][which / world];
    return sum / static_cast<double>(count);
  }

  void take_step(std::int64_t step) {
    const auto begin = clock_.now();
    const BatchConfig& batch = config_.batch;
    std::vector<double> own;
    for (std::int64_t micro_step = 0; micro_step < batch.accumulation; ++micro_step) {
      const std::int64_t which = ranks_.rank.value() * batch.accumulation + micro_step;
      auto sequences = need(run_.preparation.sampler.training(step, which, batch.micro_batch));
      const at::Tensor loss = model_->loss(tensor_of(sequences));
      own.push_back(loss.item<double>());
      engine_->backward(loss);
    }
    in_step_ = true;
    const engine::StepReport report = engine_->step();
    in_step_ = false;
    const engine::MemoryReport memory = engine_->memory();
    own.push_back(Seconds(clock_.now() - begin).count());
    own.push_back(static_cast<double>(engine_->traffic().gathered_peak.value()));
    own.push_back(static_cast<double>(memory.total.peak.value()));
    own.push_back(shows() && run_.interrupt.came() ? 1 : 0);
    note_step(report, need(values_of_ranks(engine_->transport(), own, deadline())));
  }

  void note_step(const engine::StepReport& report, const std::vector<std::vector<double>>& all) {
    const auto micro_steps = static_cast<std::size_t>(config_.batch.accumulation);
    StepLine line{.step = report.step,
                  .loss = mean_in_order(all, micro_steps),
                  .lr = config_.optimizer.lr * report.lr_factor,
                  .gradient_norm = report.gradient_norm,
                  .ranks = {}};
    for (const std::vector<double>& values : all) {
      const double* rest = values.data() + micro_steps;
      line.ranks.push_back({.loss = mean_in_order({values}, micro_steps),
                            .seconds = rest[0],
                            .gathered = Bytes(static_cast<std::int64_t>(rest[1])),
                            .total = Bytes(static_cast<std::int64_t>(rest[2]))});
      end_.interrupted = end_.interrupted || rest[3] > 0;
    }
    hash_.add(line.loss);
    if (end_.steps++ == 0) end_.loss_first = line.loss;
    end_.loss_last = line.loss;
    end_.skipped += report.skipped ? 1 : 0;
    if (shows()) need(progress_.show(line));
    if (records_) need(records_->append(jsonl_of(line, run_.preparation.tokens_per_step())));
  }

  // On every rank alike, as the parameters are gathered from all of them.
  void write_sample() {
    const SampleConfig& sample = config_.sample;
    const auto tokens = model::generate(*model_, run_.preparation.prompt,
                                        {.tokens = sample.tokens,
                                         .temperature = sample.temperature,
                                         .seed = static_cast<std::uint64_t>(config_.seed)});
    end_.sample = sample.prompt + run_.preparation.corpus->text_of(tokens);
  }

  // Of the steps: without the traffic of the held-out loss and the sample, but for peaks and
  // percentiles, which cannot be taken apart.
  void take_ends(const engine::TrafficReport& before) {
    RankEnd own;
    const engine::MemoryReport memory = engine_->memory();
    for (const engine::TagReport& tag : memory.tags) {
      own.tags[static_cast<std::size_t>(tag.tag)] = {.bytes = tag.bytes, .ledger = tag.ledger};
    }
    own.total = memory.total;
    const engine::TrafficReport traffic = engine_->traffic();
    own.gathered = traffic.moved.gathered - before.moved.gathered;
    own.reduced = traffic.moved.reduced - before.moved.reduced;
    own.planned_gathered = traffic.planned.gathered - before.planned.gathered;
    own.planned_reduced = traffic.planned.reduced - before.planned.reduced;
    own.gathered_peak = traffic.gathered_peak;
    own.waited =
        traffic.gather_waited + traffic.reduce_waited - before.gather_waited - before.reduce_waited;
    own.gathers = times_of(traffic.gather, before.gather);
    own.reductions = times_of(traffic.reduce, before.reduce);
    for (const auto& numbers :
         need(values_of_ranks(engine_->transport(), numbers_of(own), deadline()))) {
      end_.ranks.push_back(rank_end_of(numbers));
    }
  }

  void show_end() {
    Report report = end_report(run_.preparation, end_);
    run_.out << "\n" << as_text(report, style());
    if (config_.sample.tokens > 0) {
      run_.out << "\nThe model writes:\n" << printable(end_.sample, true) << "\n";
    }
    need(flush_output(run_.out));
    if (config_.out.empty()) return;
    report.tables.insert(report.tables.begin(), settings_table(run_.preparation.request));
    need(need(io::OutputFile::create(config_.out + "/summary.json")).append(as_json(report)));
  }

  const RankRun& run_;
  const engine::Ranks& ranks_;
  const TrainConfig& config_;
  SteadyClock clock_;
  Progress progress_;
  LossHash hash_;
  RunEnd end_;
  std::optional<io::OutputFile> records_;
  std::shared_ptr<model::Gpt> model_;
  std::optional<engine::Engine> engine_;
  bool in_step_ = false;
};

}  // namespace

void train_as_rank(const RankRun& run, const engine::Ranks& ranks) {
  at::set_num_threads(static_cast<int>(run.cores.threads));
  std::optional<Training> training;
  try {
    training.emplace(run, ranks);
    training->run();
  } catch (const Error& error) {
    run.fail(by_setting(error));
  } catch (const c10::Error& thrown) {
    run.fail(by_setting(training->reason_of(thrown)));
  } catch (const std::bad_alloc&) {
    run.fail(no_memory("the system has no more"));
  } catch (const std::exception& unexpected) {
    run.fail(Error::bug(unexpected.what()));
  }
}

}  // namespace shardlight::cli
