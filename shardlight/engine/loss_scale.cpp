#include "shardlight/engine/loss_scale.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace shardlight::engine {
namespace {

struct Listener : torch::CustomClassHolder {
  explicit Listener(std::function<void()> backward) : on_backward(std::move(backward)) {}

  std::function<void()> on_backward;
};

constexpr const char* kScale = "scale";
constexpr const char* kListener = "listener";

struct Scaled : torch::autograd::Function<Scaled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& loss,
                            double scale, const std::function<void()>& on_backward) {
    context->saved_data[kScale] = scale;
    context->saved_data[kListener] =
        c10::IValue::make_capsule(c10::make_intrusive<Listener>(on_backward));
    return loss * scale;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    c10::static_intrusive_pointer_cast<Listener>(context->saved_data[kListener].toCapsule())
        ->on_backward();
    return {gradients.front() * context->saved_data[kScale].toDouble(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor scaled_loss(const at::Tensor& loss, double scale,
                       const std::function<void()>& on_backward) {
  return Scaled::apply(loss, scale, on_backward);
}

}  // namespace shardlight::engine
