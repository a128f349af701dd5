// A chain of dense layers that changes while it trains, and what training it by hand gives: one
// process that knows neither ranks nor refresh(), to compare the engine with bit for bit.
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "training.h"

namespace shardlight::engine {

struct ChainLayer {
  std::string name;
  at::Tensor weight, bias;
};

// x -> tanh(x weight^T + bias), layer by layer: "in", "blocks.0", "blocks.1", "out". Values depend
// on names and on `own` alone, which is the rank's; those of 0 are what counts.
class Chain {
 public:
  explicit Chain(at::ScalarType type, std::int64_t own = 0);

  ChainLayer& at(const std::string& name);
  // Before the last one; as many values in as out.
  void add(const std::string& name);
  void remove(const std::string& name);
  // In its place: new tensors of the same sizes, trainable.
  void renew(const std::string& name);
  void train(const std::string& name, bool trains);

  Engine::NamedTensors parameters() const;  // of tied ones, each name
  Engine::NamedTensors buffers;
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) const;

  std::vector<ChainLayer> removed;

 private:
  ChainLayer layer(const std::string& name, std::int64_t in, std::int64_t out);

  at::ScalarType type_;
  std::int64_t own_;
  std::int64_t made_ = 0;
  std::vector<ChainLayer> layers_;
};

struct ChainRun {
  at::ScalarType type = at::kFloat;
  std::int64_t world = 1;
  std::int64_t steps = 5;
  Optimizer optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1};
  Options options;
  std::function<void(Chain&)> start;
  std::map<std::int64_t, std::function<void(Chain&)>> changes;  // before the step
};

// The engine's, on this rank, in the calling thread; parameters and states by "step/name/…". What
// was removed is as it was then. `after`, if given, is called at the end.
using AfterChain = std::function<void(Engine& engine, Chain& chain)>;
Outcome train_chain(const ChainRun& run, const Ranks& ranks, const AfterChain& after = {});
Outcome train_chain_by_hand(const ChainRun& run);

// Parameters that were removed are the outcome's, by "removed/…".
void keep_removed(const Chain& chain, Outcome& outcome);

// "" if the engine on ranks as threads has all bits of the run by hand; else the first difference.
std::string chain_difference(const ChainRun& run, const Outcome& by_hand);

// Calls `body` for each rank in a thread of its own; what the first rank throws comes out of it.
void on_chain_threads(std::int64_t world, const std::function<void(const Ranks& ranks)>& body);

}  // namespace shardlight::engine
