#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>

#include "module_model.h"

namespace shardlight::engine {
namespace {

namespace nn = torch::nn;

// A mixture of experts: the router's own choice, so ranks use different experts in different order,
// and some experts have no work on some ranks in some steps, or on none.
struct Experts : nn::Module {
  static constexpr std::int64_t kExperts = 6;
  nn::Linear router{nullptr}, head{nullptr};
  std::vector<nn::Linear> experts;

  Experts() {
    router = register_module("router", nn::Linear(8, kExperts));
    for (std::int64_t i = 0; i < kExperts; ++i) {
      experts.push_back(register_module("expert" + std::to_string(i), nn::Linear(8, 8)));
    }
    head = register_module("head", nn::Linear(8, 3));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = normal_batch({3, 8}, step, micro_batch);
    const at::Tensor weights = at::softmax(router->forward(x), -1);
    const at::Tensor chosen = weights.argmax(-1);
    std::vector<at::Tensor> rows;
    for (std::int64_t row = 0; row < x.size(0); ++row) {
      const auto expert = chosen[row].item<std::int64_t>();
      const at::Tensor out = experts[static_cast<std::size_t>(expert)]->forward(x[row]);
      rows.push_back((out * weights[row][expert]).unsqueeze(0));
    }
    return head->forward(at::tanh(at::cat(rows))).square().mean();
  }
};

// Parameters of no elements, used and unused, and of no dimensions.
struct Sizes : nn::Module {
  nn::Linear first{nullptr}, second{nullptr};
  at::Tensor empty, empty_unused, scalar;

  Sizes() {
    first = register_module("first", nn::Linear(6, 11));
    empty = register_parameter("empty", at::zeros({4, 0}));
    scalar = register_parameter("scalar", at::ones({}));
    empty_unused = register_parameter("empty_unused", at::zeros({0}));
    second = register_module("second", nn::Linear(11, 2));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = at::tanh(first->forward(normal_batch({4, 6}, step, micro_batch)));
    return (second->forward(at::cat({x, empty}, 1)) * scalar).square().mean();
  }
};

// Fewer blocks of 64 elements than ranks: some own nothing.
struct Tiny : nn::Module {
  nn::Linear only{nullptr};

  Tiny() { only = register_module("only", nn::Linear(nn::LinearOptions(5, 1).bias(false))); }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    return only->forward(normal_batch({3, 5}, step, micro_batch)).square().mean();
  }
};

// Parameters that are read through views and slices; one lies in more memory than its own when the
// engine takes it over.
struct Views : nn::Module {
  at::Tensor weight, part;

  Views() {
    weight = register_parameter("weight", at::randn({12, 10}));
    part = register_parameter("part", at::randn({25, 10}).narrow(0, 3, 12));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    const at::Tensor x = normal_batch({3, 12}, step, micro_batch);
    const at::Tensor upper = weight.view({2, 60})[0].view({6, 10}), lower = weight.narrow(0, 6, 6);
    const at::Tensor hidden = at::tanh(x.narrow(1, 0, 6).mm(upper) + x.narrow(1, 6, 6).mm(lower));
    return hidden.mm(part.t()).square().mean() + (x.mm(part) - hidden).square().mean();
  }
};

// Some micro-batches use no parameter at all, and in the second step none does on any rank.
struct Absent : nn::Module {
  nn::Linear first{nullptr}, second{nullptr};

  Absent() {
    first = register_module("first", nn::Linear(6, 20));
    second = register_module("second", nn::Linear(20, 3));
  }
  at::Tensor loss(std::int64_t step, std::int64_t micro_batch) {
    at::Tensor x = normal_batch({4, 6}, step, micro_batch);
    if (step == 1 || micro_batch % 3 == 1) return x.requires_grad_().square().mean();
    return second->forward(at::tanh(first->forward(x))).square().mean();
  }
};

}  // namespace

std::vector<NamedModel> odd_models() {
  return {
      {"experts", &model_of<Experts>}, {"sizes", &model_of<Sizes>},   {"tiny", &model_of<Tiny>},
      {"views", &model_of<Views>},     {"absent", &model_of<Absent>},
  };
}

}  // namespace shardlight::engine
