#include "models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <stdexcept>

#include "module_model.h"

namespace shardlight::engine {
namespace {

at::Generator generator_of(std::int64_t step, std::int64_t micro_batch) {
  return at::make_generator<at::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(step * 1000 + micro_batch + 1));
}

const std::vector<NamedModel>& models() {
  static const std::vector<NamedModel> kModels = [] {
    std::vector<NamedModel> all = dense_models();
    for (const auto& more : {sequence_models(), odd_models(), half_models()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return kModels;
}

}  // namespace

at::Tensor normal_batch(at::IntArrayRef shape, std::int64_t step, std::int64_t micro_batch) {
  return at::randn(shape, generator_of(step, micro_batch), at::TensorOptions(at::kFloat));
}

at::Tensor token_batch(std::int64_t most, at::IntArrayRef shape, std::int64_t step,
                       std::int64_t micro_batch) {
  return at::randint(most, shape, generator_of(step, micro_batch), at::TensorOptions(at::kLong));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const NamedModel& model : models()) names.push_back(model.name);
  return names;
}

TestModel make_model(const std::string& name, std::uint64_t seed) {
  for (const auto& list : {models(), random_models()}) {
    for (const NamedModel& model : list) {
      if (model.name == name) return model.make(seed);
    }
  }
  throw std::invalid_argument("no model " + name);
}

}  // namespace shardlight::engine
