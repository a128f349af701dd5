// The engine over a process group has the bits that it has over threads.
#include "shardlight/engine/c10d/c10d_world.h"
#include "tests/engine/c10d/meeting.h"
#include "tests/engine/chain.h"
#include "tests/engine/training.h"

namespace shardlight::engine {

std::string train_as_threads_do(const std::string& model, int stage) {
  Training run{.model = model, .world = meeting().world};
  run.options.stage = stage;
  run.options.accumulation = 2;
  run.options.reduce = plan::ReduceSetting::kEveryMicroStep;
  run.options.clip_norm = 0.05;
  run.options.unit_bytes = Bytes(1024);
  run.options.deadline = Seconds(60);
  const auto ranks = ranks_of_process_group(meeting().new_group(), meeting().store, Seconds(60));
  if (!ranks) return ranks.error().message();
  try {
    const Outcome threads = train(run);
    const Outcome found = train_rank(run, *ranks, model_of_rank(run, meeting().rank.value()));
    const auto rank = static_cast<std::size_t>(meeting().rank.value());
    if (found.losses[rank] != threads.losses[rank]) return "losses differ";
    const auto moved = found.traffic[rank].moved;
    const auto planned = found.traffic[rank].planned;
    if (moved.gathered != planned.gathered || moved.reduced != planned.reduced) {
      return "the traffic is not the planned one";
    }
    return difference_of_values(found, threads);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Each refresh meets over the group anew.
std::string refresh_as_by_hand(int stage) {
  ChainRun run{.type = at::kBFloat16, .world = meeting().world};
  run.options.stage = stage;
  run.options.unit_bytes = Bytes(0);
  run.options.deadline = Seconds(60);
  run.start = [](Chain& chain) { chain.train("in", false); };
  run.changes = {{1,
                  [](Chain& chain) {
                    chain.train("in", true);
                    chain.add("blocks.2");
                  }},
                 {3, [](Chain& chain) {
                    chain.train("out", false);
                    chain.remove("blocks.0");
                  }}};
  const auto ranks = ranks_of_process_group(meeting().new_group(), meeting().store, Seconds(60));
  if (!ranks) return ranks.error().message();
  try {
    return difference_of_values(train_chain(run, *ranks), train_chain_by_hand(run));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace shardlight::engine
