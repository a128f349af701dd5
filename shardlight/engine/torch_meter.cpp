#include "shardlight/engine/torch_meter.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "shardlight/engine/autograd_hooks.h"

namespace shardlight::engine {
namespace {

// Stands before the memory it is about.
struct alignas(64) Header {
  std::shared_ptr<memory::Account> account;
  Bytes bytes;
  std::atomic<memory::Tag> tag;
  at::DataPtr whole;
};
// Torch aligns its memory to 64 bytes, and so stays what follows.
constexpr std::size_t kHeaderBytes = 128;
static_assert(sizeof(Header) <= kHeaderBytes);

Header* header_of(void* memory) {
  return reinterpret_cast<Header*>(static_cast<std::byte*>(memory) - kHeaderBytes);
}

void end_allocation(void* memory) {
  if (memory == nullptr) return;  // of no bytes
  Header* const header = header_of(memory);
  if (header->account) header->account->remove(header->tag, header->bytes);
  const at::DataPtr whole = std::move(header->whole);
  header->~Header();
}

// Empty where no engine was used on this thread.
std::shared_ptr<memory::Account>& account_of_thread() {
  thread_local std::shared_ptr<memory::Account> account;
  return account;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  // Every piece has a header, on an account or not: torch's raw_deallocate knows only the address.
  at::DataPtr allocate(std::size_t size) override {
    if (size == 0) return {nullptr, c10::DeviceType::CPU};
    at::DataPtr whole = base_->allocate(size + kHeaderBytes);
    auto* const memory = static_cast<std::byte*>(whole.get());
    const auto& account = account_of_thread();
    const Bytes bytes(static_cast<std::int64_t>(size));
    const auto tag = in_backward() ? memory::Tag::kTemporaries : memory::Tag::kActivations;
    if (account) account->add(tag, bytes);
    new (memory) Header{account, bytes, tag, std::move(whole)};
    std::byte* const data = memory + kHeaderBytes;
    return {data, data, &end_allocation, c10::DeviceType::CPU};
  }
  at::DeleterFnPtr raw_deleter() const override { return &end_allocation; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    base_->copy_data(to, from, size);
  }

 private:
  c10::Allocator* base_;
};

// Above torch's own, which has 0.
constexpr std::uint8_t kPriority = 1;

// It stays for good: memory from it may be given back through it at any time.
void lay_over_torch() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingAllocator allocator(c10::GetAllocator(c10::DeviceType::CPU));
    c10::SetAllocator(c10::DeviceType::CPU, &allocator, kPriority);
  });
}

}  // namespace

TorchMeter::TorchMeter(std::shared_ptr<memory::Account> account) : account_(std::move(account)) {
  lay_over_torch();
  here();
}

TorchMeter::~TorchMeter() {
  if (account_of_thread() == account_) account_of_thread().reset();
}

void TorchMeter::here() const {
  auto& account = account_of_thread();
  if (account != account_) account = account_;
}

bool retag(const at::Tensor& tensor, memory::Tag tag) {
  const auto& pointer = tensor.storage().data_ptr();
  if (pointer.get_deleter() != &end_allocation) return false;
  Header* const header = header_of(pointer.get_context());
  if (!header->account) return false;
  header->account->move(header->tag.exchange(tag), tag, header->bytes);
  return true;
}

}  // namespace shardlight::engine
