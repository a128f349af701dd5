#include "shardlight/engine/touch.h"

#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <mutex>

#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/operator_inputs.h"

namespace shardlight::engine {
namespace {

// What an operator uses, until it ends.
struct Uses : at::ObserverContext {
  c10::SmallVector<ManagedTensor*, 4> tensors;

  Uses() = default;
  Uses(const Uses&) = delete;
  Uses(Uses&&) = delete;
  Uses& operator=(const Uses&) = delete;
  Uses& operator=(Uses&&) = delete;
  ~Uses() override {
    for (ManagedTensor* tensor : tensors) tensor->keeper->unpin(*tensor);
  }
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  see_operator();
  std::unique_ptr<Uses> uses;
  for_each_input(function, [&](const at::Tensor& tensor, std::size_t argument) {
    ManagedTensor* const managed = managed_tensor(tensor);
    if (managed == nullptr) return;
    const OperatorTraits& traits = traits_of(function);
    if (traits.only_views) return;
    if (!uses) uses = std::make_unique<Uses>();
    if (managed->keeper->pin(*managed, traits.writes_to(argument), function.name())) {
      uses->tensors.push_back(managed);
    }
  });
  return uses;
}

struct Registration {
  std::mutex mutex;
  int users = 0;
  at::CallbackHandle handle = 0;
};

Registration& registration() {
  static Registration kept;
  return kept;
}

}  // namespace

Touch::Touch() {
  Registration& kept = registration();
  const std::scoped_lock lock(kept.mutex);
  if (kept.users++ == 0) {
    kept.handle = at::addGlobalCallback(at::RecordFunctionCallback(before_operator)
                                            .needsInputs(true)
                                            .scopes({at::RecordScope::FUNCTION}));
  }
}

Touch::~Touch() {
  Registration& kept = registration();
  const std::scoped_lock lock(kept.mutex);
  if (--kept.users == 0) at::removeCallback(kept.handle);
}

}  // namespace shardlight::engine
