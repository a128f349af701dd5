// A few steps of a test model by the engine, on ranks as threads of this process or as one rank of
// any world, and all there is to compare of them, bit for bit: with another run of the engine or
// with the plain twin (plain_twin.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models.h"
#include "shardlight/comm/text_hash.h"
#include "shardlight/engine/engine.h"

namespace shardlight::engine {

// By name, whole parameters in fp32 (masters of 16-bit ones) that a plain optimizer steps: those
// that have a .grad, at each call.
using Stepped = std::vector<std::pair<std::string, at::Tensor>>;
using PlainStep = std::function<void(std::int64_t step)>;
using MakePlainStep = std::function<PlainStep(const Stepped& stepped)>;

struct Training {
  std::string model = "mlp";
  std::int64_t world = 1;
  std::int64_t steps = 3;
  Optimizer optimizer = AdamW{.lr = 1e-2};
  MakePlainStep plain;  // the twin's, where the optimizer is a class of torch's
  Options options;
};

struct Outcome {
  std::vector<std::vector<double>> losses;  // by rank, each micro-step
  std::vector<double> norms;                // by step
  // By "step/name": mean gradients after the last backward; parameters and states at the end.
  std::map<std::string, at::Tensor> gradients, parameters, states;
  std::vector<MemoryReport> memory;    // by rank, at the end
  std::vector<TrafficReport> traffic;  // by rank
};

// Ranks as threads. All ranks must see the same gradients, parameters, states and norms, which are
// given once; else it throws.
Outcome train(const Training& run);
// This rank alone, in the calling thread; of the lists by rank, only its own place is filled.
Outcome train_rank(const Training& run, const Ranks& ranks, const TestModel& model);
// The model that rank starts with; rank 0's values are the ones that count.
TestModel model_of_rank(const Training& run, std::int64_t rank);
Engine make_engine(const Training& run, const Ranks& ranks, const TestModel& model);
// The backward passes of a step on this rank.
void accumulate(Engine& engine, const Training& run, const TestModel& model, std::int64_t step);

// Calls `body` once for each rank, in a thread of its own with a model of its own; what the first
// rank throws comes out of it.
using RankBody = std::function<void(const Ranks& ranks, const TestModel& model)>;
void on_threads(const Training& run, const RankBody& body);

// All bits of a tensor, after what `before` is the hash of.
std::uint64_t hash_of(const at::Tensor& tensor, std::uint64_t before = comm::kNoText);

// Each parameter once, by its first name.
std::vector<std::pair<std::string, at::Tensor>> unique_parameters(const TestModel& model);
// What Engine::optimizer_state calls the states of an optimizer.
std::vector<std::string> state_names(const Optimizer& optimizer);

// "" if all losses, gradients, parameters, states and norms have the same bits; else the first
// difference.
std::string difference(const Outcome& a, const Outcome& b);
// The same without losses, which are by rank and micro-step: for worlds of different sizes.
std::string difference_of_values(const Outcome& a, const Outcome& b);

// What the call throws says.
inline constexpr const char* kNothingThrown = "nothing was thrown";
std::string thrown_by(const std::function<void()>& call);

}  // namespace shardlight::engine
