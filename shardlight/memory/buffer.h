// Memory of our own with a tag in an account: zeros at first, aligned to a cache line, given back
// and taken off the account when the buffer ends. Large ones come from the kernel by themselves, in
// huge pages where it has them, so that they leave nothing behind in the heap.
// Moves, does not copy; as one thread at a time writes it.
#pragma once

#include <cstddef>
#include <span>

#include "shardlight/base/result.h"
#include "shardlight/memory/account.h"

namespace shardlight::memory {

class Buffer {
 public:
  Buffer() = default;
  // Errors (environment): the system has no more memory. The account outlives the buffer.
  static Result<Buffer> zeros(Account& account, Tag tag, Bytes bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::span<float> floats() const;

 private:
  Buffer(Account& account, Tag tag, std::byte* data, std::size_t size)
      : account_(&account), tag_(tag), data_(data), size_(size) {}

  Account* account_ = nullptr;
  Tag tag_ = Tag::kTemporaries;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace shardlight::memory
