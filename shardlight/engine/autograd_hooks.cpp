#include "shardlight/engine/autograd_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace shardlight::engine {
namespace {

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void()> hook) : hook_(std::move(hook)) {}

  void operator()(const torch::autograd::Variable& /*parameter*/) override { hook_(); }

 private:
  std::function<void()> hook_;
};

}  // namespace

void on_gradient(const at::Tensor& parameter, std::function<void()> hook) {
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> ours;
  if (hook) ours = std::make_unique<GradientHook>(std::move(hook));
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(ours));
}

bool in_backward() { return torch::autograd::get_current_graph_task_id() >= 0; }

void at_end_of_backward(std::function<void()> function) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(function));
}

}  // namespace shardlight::engine
