// Turns a torch module with a member `loss(step, micro_batch)` into a TestModel. For the files that
// define models; tests use models.h. One thread at a time: models are made from torch's generator,
// which belongs to the process.
#pragma once

#include <torch/nn/module.h>
#include <torch/utils.h>

#include "batches.h"
#include "models.h"

namespace shardlight::engine {

struct NamedModel {
  std::string name;
  TestModel (*make)(std::uint64_t seed);
};

// By file: dense ones, sequences, modules that use their parameters in odd ways, and 16-bit ones.
std::vector<NamedModel> dense_models();
std::vector<NamedModel> sequence_models();
std::vector<NamedModel> odd_models();
std::vector<NamedModel> half_models();
// Their forward draws random numbers, from a generator that belongs to the process.
std::vector<NamedModel> random_models();

template <class Module>
TestModel model_of(std::uint64_t seed) {
  torch::manual_seed(seed);
  const auto module = std::make_shared<Module>();
  TestModel model{.module = module, .parameters = {}, .buffers = {}, .loss = {}};
  for (const auto& item : module->named_parameters()) {
    model.parameters.emplace_back(item.key(), item.value());
  }
  for (const auto& item : module->named_buffers()) {
    model.buffers.emplace_back(item.key(), item.value());
  }
  model.loss = [module](std::int64_t step, std::int64_t micro_batch) {
    return module->loss(step, micro_batch);
  };
  return model;
}

}  // namespace shardlight::engine
