#include "shardlight/comm/shared/segment.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include "shardlight/base/arithmetic.h"

namespace shardlight::comm {
namespace {

Failure failure(const std::string& operation, Bytes size) {
  return Failure(Error::environment(
      {.operation = operation},
      "shared memory of " + std::to_string(size.value()) + " bytes: " + std::strerror(errno),
      Unusable::kCommunicator));
}

Result<std::byte*> mapped(int descriptor, int flags, Bytes size,
                          int access = PROT_READ | PROT_WRITE) {
  void* data =
      ::mmap(nullptr, static_cast<std::size_t>(size.value()), access, flags, descriptor, 0);
  if (data == MAP_FAILED) return failure("mapping", size);
  return static_cast<std::byte*>(data);
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Result<Segment> Segment::anonymous(Bytes size) {
  SHARDLIGHT_TRY(std::byte * data, mapped(-1, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, size));
  return Segment(data, size);
}

Result<Descriptor> Segment::create_file(Bytes size) {
  Descriptor file(::memfd_create("shardlight", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), size.value()) != 0) return failure("creating", size);
  return file;
}

Result<Segment> Segment::of_file(const Descriptor& file, Bytes size) {
  SHARDLIGHT_TRY(std::byte * data, mapped(file.get(), MAP_SHARED | MAP_NORESERVE, size));
  return Segment(data, size);
}

Result<Segment> Segment::of_file_to_read(const Descriptor& file, Bytes size) {
  SHARDLIGHT_TRY(std::byte * data, mapped(file.get(), MAP_SHARED | MAP_NORESERVE, size, PROT_READ));
  return Segment(data, size);
}

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(size_.value()));
}

void Segment::populate(Bytes begin, Bytes length) const {
  constexpr std::int64_t kPage = 4096;
  const std::int64_t first = begin.value() / kPage * kPage;
  const std::int64_t end = round_up((begin + length).value(), kPage);
  if (length > Bytes(0)) {
    ::madvise(data_ + first, static_cast<std::size_t>(end - first), MADV_POPULATE_WRITE);
  }
}

}  // namespace shardlight::comm
