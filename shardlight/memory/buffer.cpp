#include "shardlight/memory/buffer.h"

#include <sys/mman.h>

#include <utility>

#include "shardlight/memory/pages.h"

namespace shardlight::memory {

Result<Buffer> Buffer::zeros(Account& account, Tag tag, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.value());
  if (size == 0) return Buffer();
  std::byte* const data = map_pages(size);
  if (data == nullptr) {
    return Failure(Error::environment(
        {.rank = {}, .unit = "", .operation = "allocation"},
        "no memory for " + std::to_string(size) + " bytes of " + std::string(name_of(tag)),
        Unusable::kOperation));
  }
  account.add(tag, bytes);
  return Buffer(account, tag, data, size);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  munmap(data_, size_);
  account_->remove(tag_, Bytes(static_cast<std::int64_t>(size_)));
}

Buffer::Buffer(Buffer&& other) noexcept
    : account_(other.account_),
      tag_(other.tag_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Buffer old(std::move(*this));
    account_ = other.account_;
    tag_ = other.tag_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

std::span<float> Buffer::floats() const {
  return {reinterpret_cast<float*>(data_), size_ / sizeof(float)};
}

}  // namespace shardlight::memory
