#include "shardlight/memory/buffer.h"

#include <sys/mman.h>

#include <utility>

namespace shardlight::memory {
namespace {

// From here on a huge page can pay.
constexpr std::size_t kHugeFrom = std::size_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::zeros(Account& account, Tag tag, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.value());
  if (size == 0) return Buffer();
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Failure(Error::environment(
        {.rank = {}, .unit = "", .operation = "allocation"},
        "no memory for " + std::to_string(size) + " bytes of " + std::string(name_of(tag)),
        Unusable::kOperation));
  }
  // Advice only: without it the memory is the same.
  if (size >= kHugeFrom) madvise(data, size, MADV_HUGEPAGE);
  account.add(tag, bytes);
  return Buffer(account, tag, static_cast<std::byte*>(data), size);
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
