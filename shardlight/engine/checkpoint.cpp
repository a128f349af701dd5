#include "shardlight/engine/checkpoint.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

#include "shardlight/engine/random_state.h"

namespace shardlight {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs to go forward again, beside the inputs.
struct Recipe : torch::CustomClassHolder {
  Recipe(Checkpointed part, at::Tensor state)
      : segment(std::move(part)), random(std::move(state)) {}

  Checkpointed segment;
  at::Tensor random;
};

constexpr const char* kRecipe = "recipe";

// `anchor` requires a gradient, so that backward comes here at all.
struct Segment : torch::autograd::Function<Segment> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/,
                            const Checkpointed& segment, at::TensorList inputs) {
    context->saved_data[kRecipe] =
        c10::IValue::make_capsule(c10::make_intrusive<Recipe>(segment, engine::random_state()));
    context->save_for_backward(inputs.vec());
    return segment(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto recipe =
        c10::static_intrusive_pointer_cast<Recipe>(context->saved_data[kRecipe].toCapsule());
    const variable_list saved = context->get_saved_variables();
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& tensor : saved) {
      inputs.push_back(tensor.detach().requires_grad_(tensor.requires_grad()));
    }
    at::Tensor again;
    {
      const engine::KeptRandomState kept;
      engine::set_random_state(recipe->random);
      const at::AutoGradMode recorded(true);
      again = recipe->segment(inputs);
    }
    if (again.requires_grad()) torch::autograd::backward({again}, {gradients.front()});
    variable_list found = {at::Tensor(), at::Tensor()};  // of anchor and segment
    for (const at::Tensor& input : inputs) {
      found.push_back(input.requires_grad() ? input.grad() : at::Tensor());
    }
    return found;
  }
};

}  // namespace

at::Tensor checkpoint(const Checkpointed& segment, const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return segment(inputs);
  const at::Tensor anchor = at::zeros({0}, at::kFloat).requires_grad_();
  return Segment::apply(anchor, segment, at::TensorList(inputs));
}

}  // namespace shardlight
