#include "shardlight/engine/autograd_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>
#include <vector>

namespace shardlight::engine {
namespace {

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void()> hook) : hook_(std::move(hook)) {}

  void operator()(const torch::autograd::Variable& /*parameter*/) override { hook_(); }

 private:
  std::function<void()> hook_;
};

constexpr int kNone = -1;

struct Listener {
  std::function<void()> ended, failed;
};

// The outermost backward of a thread. Torch numbers backwards one by one and tells of their ends
// only to who asks within them.
struct Outermost {
  int seen = kNone;   // the backward of the operator before
  int outer = kNone;  // the one whose end was asked for
  std::vector<Listener> listeners;
};

Outermost& of_thread() {
  thread_local Outermost outermost;
  return outermost;
}

void end_outer() {
  Outermost& mine = of_thread();
  mine.outer = kNone;
  for (const Listener& listener : std::exchange(mine.listeners, {})) listener.ended();
}

void ask_for_end(Outermost& mine, int backward) {
  mine.outer = backward;
  torch::autograd::Engine::get_default_engine().queue_callback(end_outer);
}

}  // namespace

void on_gradient(const at::Tensor& parameter, std::function<void()> hook) {
  std::unique_ptr<torch::autograd::PostAccumulateGradHook> ours;
  if (hook) ours = std::make_unique<GradientHook>(std::move(hook));
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(ours));
}

bool in_backward() { return torch::autograd::get_current_graph_task_id() >= 0; }

void see_operator() {
  const int backward = torch::autograd::get_current_graph_task_id();
  Outermost& mine = of_thread();
  if (backward == mine.seen) return;
  mine.seen = backward;
  if (backward == kNone) {
    // Outside of all of them: one that has not ended never will.
    if (mine.outer != kNone) fail_backward();
  } else if (mine.outer == kNone) {
    ask_for_end(mine, backward);
  }
}

void at_end_of_backward(std::function<void()> ended, std::function<void()> failed) {
  Outermost& mine = of_thread();
  // It had no operator that was seen.
  if (mine.outer == kNone) ask_for_end(mine, torch::autograd::get_current_graph_task_id());
  mine.listeners.push_back({.ended = std::move(ended), .failed = std::move(failed)});
}

void fail_backward() {
  Outermost& mine = of_thread();
  mine.outer = kNone;
  for (const Listener& listener : std::exchange(mine.listeners, {})) listener.failed();
}

}  // namespace shardlight::engine
