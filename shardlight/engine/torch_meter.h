// Puts what torch allocates on the CPU on an engine's account: a counting allocator laid over
// torch's own (c10::SetAllocator). A thread's allocations count for the engine whose parameters it
// used last: in backward as temporaries, else as activations. They go off that account wherever
// they are freed, also after the engine has ended. From 256 KiB on their memory is that of
// memory/block_cache.h, or comes from the thread's LargeMemory. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "shardlight/memory/account.h"

namespace shardlight::engine {

class TorchMeter {
 public:
  explicit TorchMeter(std::shared_ptr<memory::Account> account);
  ~TorchMeter();
  TorchMeter(const TorchMeter&) = delete;
  TorchMeter& operator=(const TorchMeter&) = delete;
  TorchMeter(TorchMeter&&) = delete;
  TorchMeter& operator=(TorchMeter&&) = delete;

  // This thread's allocations are this engine's from now on.
  void here() const;

 private:
  std::shared_ptr<memory::Account> account_;
};

// While it lives, what this thread allocates is on no account.
class Unmetered {
 public:
  Unmetered();
  ~Unmetered();
  Unmetered(const Unmetered&) = delete;
  Unmetered& operator=(const Unmetered&) = delete;
  Unmetered(Unmetered&&) = delete;
  Unmetered& operator=(Unmetered&&) = delete;

 private:
  std::shared_ptr<memory::Account> account_;  // of the thread before
};

// Another source of memory for large pieces, of one thread.
class LargeMemory {
 public:
  // Null if it does not take it on. What comes is writable, and so are 128 bytes before it; they
  // are the meter's until the piece ends. Aligned to 64 bytes.
  virtual at::DataPtr allocate(std::size_t bytes) = 0;

  LargeMemory() = default;
  virtual ~LargeMemory() = default;
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;
  LargeMemory(LargeMemory&&) = delete;
  LargeMemory& operator=(LargeMemory&&) = delete;
};

// Of this thread's allocations, from now on; they are on no account. Null: none.
void set_large_memory(LargeMemory* memory);

// What came from a LargeMemory, of a pointer to torch's memory, or from torch, or empty for a block
// of the cache; null for other pointers.
const at::DataPtr* beneath(const at::DataPtr& pointer);

// While it lives, what this thread allocates are temporaries of the meter's engine; what is left of
// it at its end, wherever it is by then, gets the tag. One at a time a thread.
class KeptAllocations {
 public:
  KeptAllocations(const TorchMeter& meter, memory::Tag tag);
  ~KeptAllocations();
  KeptAllocations(const KeptAllocations&) = delete;
  KeptAllocations& operator=(const KeptAllocations&) = delete;
  KeptAllocations(KeptAllocations&&) = delete;
  KeptAllocations& operator=(KeptAllocations&&) = delete;

 private:
  memory::Tag tag_;
};

// Gives the tensor's memory another tag, until it is freed. False if it is on no account: then the
// caller puts it on one and takes it off.
bool retag(const at::Tensor& tensor, memory::Tag tag);

}  // namespace shardlight::engine
