#include "shardlight/engine/touch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <mutex>
#include <unordered_map>

#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/engine/managed_tensor.h"

namespace shardlight::engine {
namespace {

struct OperatorTraits {
  bool only_views = false;           // its outputs are views, and it reads no element
  c10::SmallVector<bool, 8> writes;  // by argument
};

OperatorTraits traits_of(const at::RecordFunction& function) {
  OperatorTraits traits;
  const auto name = function.operator_name();
  if (!name) return traits;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (!handle) return traits;
  const auto& schema = handle->schema();
  bool writes_any = false;
  for (const auto& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    traits.writes.push_back(alias != nullptr && alias->isWrite());
    writes_any = writes_any || traits.writes.back();
  }
  bool returns_views = !schema.returns().empty();
  for (const auto& value : schema.returns()) {
    returns_views = returns_views && value.alias_info() != nullptr;
  }
  traits.only_views = returns_views && !writes_any;
  return traits;
}

// A schema's name stays where it is as long as the operator is registered, so its address stands
// for the operator.
const OperatorTraits& cached_traits(const at::RecordFunction& function) {
  thread_local std::unordered_map<const char*, OperatorTraits> cache;
  const auto [entry, is_new] = cache.try_emplace(function.name());
  if (is_new) entry->second = traits_of(function);
  return entry->second;
}

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

class OperatorInputs {
 public:
  explicit OperatorInputs(const at::RecordFunction& function) : function_(&function) {}

  std::unique_ptr<Uses> use_all() {
    const auto inputs = function_->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) use(inputs[i], i);
    return std::move(uses_);
  }

 private:
  void use(const c10::IValue& value, std::size_t argument) {
    if (value.isTensor()) {
      const auto* impl = value.unsafeToTensorImpl();
      if (impl != c10::UndefinedTensorImpl::singleton()) use(value.toTensor(), argument);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) use(tensor, argument);
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor()) use(item.toTensor(), argument);
      }
    }
  }

  void use(const at::Tensor& tensor, std::size_t argument) {
    if (!tensor.defined()) return;
    ManagedTensor* const managed = managed_tensor(tensor);
    if (managed == nullptr) return;
    const OperatorTraits& traits = cached_traits(*function_);
    if (traits.only_views) return;
    const bool writes = argument < traits.writes.size() && traits.writes[argument];
    if (!uses_) uses_ = std::make_unique<Uses>();
    if (managed->keeper->pin(*managed, writes, function_->name())) {
      uses_->tensors.push_back(managed);
    }
  }

  const at::RecordFunction* function_;
  std::unique_ptr<Uses> uses_;
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  see_operator();
  return OperatorInputs(function).use_all();
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
