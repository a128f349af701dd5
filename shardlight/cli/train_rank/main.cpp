// shardlight-train: one rank of `shardlight train`, or all of them as threads. It gets the words of
// `shardlight train`, and its place from its launcher.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "shardlight/cli/output.h"
#include "shardlight/cli/program.h"
#include "shardlight/cli/train/launchers.h"
#include "shardlight/cli/train/train_command.h"
#include "shardlight/cli/train_rank/training.h"
#include "shardlight/comm/mpi/mpi_world.h"
#include "shardlight/engine/options.h"

namespace shardlight::cli {
namespace {

// Without unwinding, so that nothing waits for other ranks.
[[noreturn]] void fail(const Error& error, const comm::Place& place) {
  std::string text = "shardlight: ";
  if (place.world > 1) text += "rank " + std::to_string(place.rank.value()) + ": ";
  std::cout << std::flush;
  std::cerr << text + error.message() + "\n" << std::flush;
  std::_Exit(error.category() == ErrorCategory::kUser ? kExitUsage : kExitFailure);
}

template <class T>
T need(Result<T> result, const comm::Place& place) {
  if (!result) fail(result.error(), place);
  return std::move(*result);
}

void need(Status status, const comm::Place& place) {
  if (!status) fail(status.error(), place);
}

// Ranks that are threads share their process's cores.
Cores cores_of(const TrainConfig& config, const comm::Place& place) {
  const std::int64_t threads = config.threads == 0 && config.zero.reproducible ? 1 : config.threads;
  Cores cores = take_cores(place, threads);
  if (threads == 0 && config.transport == "threads")
    cores.threads = std::max<std::int64_t>(1, cores.threads / config.ranks);
  return cores;
}

engine::Ranks ranks_of_mpi(const comm::Place& place) {
  return {.rank = place.rank,
          .world = place.world,
          .connect = [](const std::vector<comm::UnitSpec>& units) {
            return comm::connect_mpi(units, comm::Deadline(engine::Options().deadline));
          }};
}

void run_ranks(const RankRun& run, const comm::Place& place) {
  const TrainConfig& config = run.preparation.config();
  if (config.transport == "mpi") return train_as_rank(run, ranks_of_mpi(place));
  if (config.transport == "shm") {
    return train_as_rank(run, need(engine::ranks_of_host(engine::Options().deadline), place));
  }
  const std::vector<engine::Ranks> ranks = engine::ranks_as_threads(config.ranks);
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  for (const engine::Ranks& rank : ranks) {
    threads.emplace_back([&run, &rank] { train_as_rank(run, rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

int run(const std::vector<std::string>& arguments) {
  const Environment environment = Environment::of_process();
  const comm::Place place = need(comm::place_of(environment), {});
  const TrainArguments words = need(parse_train_arguments(arguments), place);
  if (words.help) {
    std::cout << *words.help;
    need(flush_output(std::cout), place);
    return kExitOk;
  }
  const Preparation preparation =
      need(prepare(need(load_train_request(words.config_path, words.flags), place), place), place);
  const TrainConfig& config = preparation.config();
  Interrupt interrupt;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1 && !feigns_terminals(place);
  const RankRun rank{.preparation = preparation,
                     .cores = cores_of(config, place),
                     .interrupt = interrupt,
                     .out = std::cout,
                     .terminal = terminal,
                     .colour = terminal && !environment.text("NO_COLOR"),
                     .fail = [&](const Error& error) { fail(error, place); }};
  run_ranks(rank, place);
  return kExitOk;
}

}  // namespace
}  // namespace shardlight::cli

int main(int argc, char** argv) { return shardlight::cli::run({argv + 1, argv + argc}); }
