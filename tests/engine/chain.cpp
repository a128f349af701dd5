#include "chain.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "batches.h"

namespace shardlight::engine {
namespace {

constexpr std::int64_t kIn = 13, kInner = 37, kOut = 5;
// Of values, so that they are no batch's.
constexpr std::int64_t kValues = 1000;

}  // namespace

Chain::Chain(at::ScalarType type, std::int64_t own) : type_(type), own_(own) {
  layers_ = {layer("in", kIn, kInner), layer("blocks.0", kInner, kInner),
             layer("blocks.1", kInner, kInner), layer("out", kInner, kOut)};
}

ChainLayer Chain::layer(const std::string& name, std::int64_t in, std::int64_t out) {
  const auto values = [&](at::IntArrayRef shape) {
    const at::Tensor drawn = normal_batch(shape, kValues + own_, made_++);
    return drawn.mul(0.2).to(type_).set_requires_grad(true);
  };
  return {.name = name, .weight = values({out, in}), .bias = values({out})};
}

ChainLayer& Chain::at(const std::string& name) {
  return *std::ranges::find(layers_, name, &ChainLayer::name);
}

void Chain::add(const std::string& name) {
  layers_.insert(std::prev(layers_.end()), layer(name, kInner, kInner));
}

void Chain::remove(const std::string& name) {
  removed.push_back(at(name));
  std::erase_if(layers_, [&](const ChainLayer& layer) { return layer.name == name; });
}

void Chain::renew(const std::string& name) {
  ChainLayer& old = at(name);
  removed.push_back(old);
  old = layer(name, old.weight.size(1), old.weight.size(0));
}

void Chain::train(const std::string& name, bool trains) {
  at(name).weight.set_requires_grad(trains);
  at(name).bias.set_requires_grad(trains);
}

Engine::NamedTensors Chain::parameters() const {
  Engine::NamedTensors named;
  for (const ChainLayer& layer : layers_) {
    named.emplace_back(layer.name + ".weight", layer.weight);
    named.emplace_back(layer.name + ".bias", layer.bias);
  }
  return named;
}

at::Tensor Chain::loss(std::int64_t step, std::int64_t micro_batch) const {
  at::Tensor x = normal_batch({7, kIn}, step, micro_batch).to(type_);
  for (const ChainLayer& layer : layers_) x = at::tanh(at::linear(x, layer.weight, layer.bias));
  return x.square().mean();
}

void keep_removed(const Chain& chain, Outcome& outcome) {
  for (std::size_t i = 0; i < chain.removed.size(); ++i) {
    const ChainLayer& layer = chain.removed[i];
    const std::string name = "removed/" + std::to_string(i) + layer.name;
    outcome.parameters[name + ".weight"] = layer.weight.detach().clone();
    outcome.parameters[name + ".bias"] = layer.bias.detach().clone();
  }
}

namespace {

// Each once, by its first name.
Engine::NamedTensors unique_of(const Chain& chain) {
  return unique_parameters(
      {.module = {}, .parameters = chain.parameters(), .buffers = {}, .loss = {}});
}

void change(const ChainRun& run, std::int64_t step, Chain& chain,
            const std::function<void()>& changed) {
  const auto found = run.changes.find(step);
  if (found == run.changes.end()) return;
  found->second(chain);
  changed();
}

void read_all(Engine& engine, const Chain& chain, const ChainRun& run, std::int64_t step,
              Outcome& outcome) {
  for (const auto& [name, parameter] : unique_of(chain)) {
    const std::string key = std::to_string(step) + "/" + name;
    {
      const at::NoGradGuard no_grad;
      const auto scope = engine.gathered({parameter});
      outcome.parameters[key] = parameter.detach().clone();
    }
    if (!parameter.requires_grad()) continue;
    auto states = state_names(run.optimizer);
    if (run.type != at::kFloat) states.emplace_back("master");
    for (const std::string& state : states) {
      outcome.states[std::string(key).append("/").append(state)] =
          engine.optimizer_state(parameter, state);
    }
  }
}

}  // namespace

Outcome train_chain(const ChainRun& run, const Ranks& ranks, const AfterChain& after) {
  at::set_num_threads(1);
  const std::int64_t rank = ranks.rank.value();
  Chain chain(run.type, rank);
  if (run.start) run.start(chain);
  Outcome outcome;
  outcome.losses.resize(static_cast<std::size_t>(run.world));
  Options options = run.options;
  options.ranks = ranks;
  Engine engine(chain.parameters(), chain.buffers, run.optimizer, options);
  for (std::int64_t step = 0; step < run.steps; ++step) {
    change(run, step, chain, [&] { engine.refresh(chain.parameters(), chain.buffers); });
    const at::Tensor loss = chain.loss(step, rank);
    outcome.losses[static_cast<std::size_t>(rank)].push_back(loss.item<double>());
    engine.backward(loss);
    outcome.norms.push_back(engine.step().gradient_norm);
    read_all(engine, chain, run, step, outcome);
  }
  keep_removed(chain, outcome);
  if (after) after(engine, chain);
  engine.close();
  return outcome;
}

void on_chain_threads(std::int64_t world, const std::function<void(const Ranks& ranks)>& body) {
  const auto all = ranks_as_threads(world);
  std::vector<std::exception_ptr> errors(all.size());
  std::vector<std::thread> threads;
  for (const Ranks& ranks : all) {
    threads.emplace_back([&, ranks] {
      at::set_num_threads(1);
      try {
        body(ranks);
      } catch (...) {
        errors[static_cast<std::size_t>(ranks.rank.value())] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::string chain_difference(const ChainRun& run, const Outcome& by_hand) {
  std::vector<std::string> found(static_cast<std::size_t>(run.world));
  on_chain_threads(run.world, [&](const Ranks& ranks) {
    const Outcome outcome = train_chain(run, ranks);
    const auto rank = static_cast<std::size_t>(ranks.rank.value());
    found[rank] = difference_of_values(outcome, by_hand);
    if (outcome.losses[rank] != by_hand.losses[rank]) found[rank] += "; losses differ";
  });
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank].empty()) return "rank " + std::to_string(rank) + ": " + found[rank];
  }
  return "";
}

}  // namespace shardlight::engine
