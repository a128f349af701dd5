// Small models of many kinds for the engine's tests: unmodified torch modules, with a loss and
// batches that are functions of (step, global micro-batch) alone. Which there are and what each is
// for is said beside it in the files *_models.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardlight::engine {

struct TestModel {
  std::shared_ptr<void> module;  // keeps it alive
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  std::function<at::Tensor(std::int64_t step, std::int64_t micro_batch)> loss;
};

// All but "dropout", which ranks as threads cannot repeat.
std::vector<std::string> model_names();
TestModel make_model(const std::string& name, std::uint64_t seed);

}  // namespace shardlight::engine
