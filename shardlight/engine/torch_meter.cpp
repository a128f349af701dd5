#include "shardlight/engine/torch_meter.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <new>
#include <unordered_set>
#include <utility>

#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/memory/block_cache.h"

namespace shardlight::engine {
namespace {

struct Header;

// What is allocated within a KeptAllocations and not freed yet.
struct Tracked {
  std::unordered_set<Header*> headers;
};
// Of all of them: memory may be freed by another thread.
std::mutex& tracking_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Stands before the memory it is about.
struct alignas(64) Header {
  std::shared_ptr<memory::Account> account;
  Bytes bytes;
  std::atomic<memory::Tag> tag;
  at::DataPtr whole;
  memory::Block block;                      // of the cache; else `whole` has it
  std::atomic<Tracked*> tracked = nullptr;  // changes under the lock
};
// Where a piece comes from, and whose it is.
struct Source {
  std::shared_ptr<memory::Account> account = nullptr;
  at::DataPtr whole = {};
  memory::Block block = {};
};
// Smaller pieces fit into a heap's holes. Under AddressSanitizer, which watches the heap alone, all
// are small.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kBlockFrom = std::numeric_limits<std::size_t>::max();
#else
constexpr std::size_t kBlockFrom = std::size_t{256} << 10;
#endif
// Torch aligns its memory to 64 bytes, and so stays what follows.
constexpr std::size_t kHeaderBytes = 128;
static_assert(sizeof(Header) <= kHeaderBytes);

Header* header_of(void* memory) {
  return reinterpret_cast<Header*>(static_cast<std::byte*>(memory) - kHeaderBytes);
}

void end_allocation(void* memory) {
  if (memory == nullptr) return;  // of no bytes
  Header* const header = header_of(memory);
  if (header->tracked != nullptr) {
    const std::scoped_lock lock(tracking_mutex());
    if (Tracked* const tracked = header->tracked) tracked->headers.erase(header);
  }
  if (header->account) header->account->remove(header->tag, header->bytes);
  const at::DataPtr whole = std::move(header->whole);
  const memory::Block block = header->block;
  const auto account = std::move(header->account);
  header->~Header();
  if (block.data != nullptr) memory::BlockCache::of_process().give(block, account);
}

// Empty where no engine was used on this thread.
std::shared_ptr<memory::Account>& account_of_thread() {
  thread_local std::shared_ptr<memory::Account> account;
  return account;
}

thread_local LargeMemory* large_memory_of_thread = nullptr;

std::unique_ptr<Tracked>& tracked_of_thread() {
  thread_local std::unique_ptr<Tracked> tracked;
  return tracked;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  // Every piece has a header, on an account or not: torch's raw_deallocate knows only the address.
  at::DataPtr allocate(std::size_t size) override {
    if (size == 0) return {nullptr, c10::DeviceType::CPU};
    if (LargeMemory* const large = large_memory_of_thread) {
      if (at::DataPtr whole = large->allocate(size)) {
        auto* const data = static_cast<std::byte*>(whole.get());
        return with_header(data, size, {.whole = std::move(whole)});
      }
    }
    const auto& account = account_of_thread();
    // What no account knows of is not kept either.
    if (account && size >= kBlockFrom) {
      const auto block = memory::BlockCache::of_process().take(size + kHeaderBytes);
      if (block.data != nullptr) {
        return with_header(block.data + kHeaderBytes, size, {.account = account, .block = block});
      }
    }
    at::DataPtr whole = base_->allocate(size + kHeaderBytes);
    auto* const data = static_cast<std::byte*>(whole.get()) + kHeaderBytes;
    return with_header(data, size, {.account = account, .whole = std::move(whole)});
  }
  at::DeleterFnPtr raw_deleter() const override { return &end_allocation; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    base_->copy_data(to, from, size);
  }

 private:
  static at::DataPtr with_header(std::byte* data, std::size_t size, Source source) {
    // All of a block, as when it is kept.
    const std::size_t taken = source.block.data != nullptr ? source.block.bytes : size;
    const Bytes bytes(static_cast<std::int64_t>(taken));
    Tracked* const tracked = tracked_of_thread().get();
    const auto tag =
        tracked != nullptr || in_backward() ? memory::Tag::kTemporaries : memory::Tag::kActivations;
    if (source.account) source.account->add(tag, bytes);
    auto* const header = new (header_of(data))
        Header{source.account, bytes, tag, std::move(source.whole), source.block};
    if (tracked != nullptr) {
      const std::scoped_lock lock(tracking_mutex());
      tracked->headers.insert(header);
      header->tracked = tracked;
    }
    return {data, data, &end_allocation, c10::DeviceType::CPU};
  }

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
  memory::BlockCache::of_process().open(account_);
  here();
}

TorchMeter::~TorchMeter() {
  if (account_of_thread() == account_) account_of_thread().reset();
  memory::BlockCache::of_process().close(*account_);
}

void TorchMeter::here() const {
  auto& account = account_of_thread();
  if (account != account_) account = account_;
}

Unmetered::Unmetered() : account_(std::move(account_of_thread())) { account_of_thread().reset(); }

Unmetered::~Unmetered() { account_of_thread() = std::move(account_); }

void set_large_memory(LargeMemory* memory) {
  lay_over_torch();
  large_memory_of_thread = memory;
}

const at::DataPtr* beneath(const at::DataPtr& pointer) {
  if (pointer.get_deleter() != &end_allocation || pointer.get_context() == nullptr) return nullptr;
  return &header_of(pointer.get_context())->whole;
}

KeptAllocations::KeptAllocations(const TorchMeter& meter, memory::Tag tag) : tag_(tag) {
  meter.here();
  tracked_of_thread() = std::make_unique<Tracked>();
}

KeptAllocations::~KeptAllocations() {
  const auto tracked = std::move(tracked_of_thread());
  const std::scoped_lock lock(tracking_mutex());
  for (Header* const header : tracked->headers) {
    header->tracked = nullptr;
    // None where an engine ended meanwhile, whose model got memory of its own.
    if (!header->account) continue;
    header->account->move(header->tag.exchange(tag_), tag_, header->bytes);
  }
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
