#include "shardlight/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace shardlight::io {
namespace {

Failure failure(const std::string& path, std::string detail) {
  return Failure(Error::environment({.operation = "reading " + path}, std::move(detail),
                                    Unusable::kOperation));
}

std::string system_message() { return std::strerror(errno); }

}  // namespace

Result<File> File::open(const std::string& path) {
  // Non-blocking, so that a FIFO without a writer is refused below instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return failure(path, system_message());
  File file(descriptor, path, Bytes(0));
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return failure(path, system_message());
  if (!S_ISREG(status.st_mode)) return failure(path, "not a regular file");
  file.size_ = Bytes(status.st_size);
  return file;
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      size_(other.size_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::string> File::read(Bytes offset, Bytes length) const {
  std::string text(static_cast<std::size_t>(length.value()), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::pread(descriptor_, text.data() + done, text.size() - done,
                                offset.value() + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(path_, system_message());
    if (got == 0) {
      return failure(
          path_, fmt::format("ends after {} bytes; {} were expected",
                             offset.value() + static_cast<off_t>(done), (offset + length).value()));
    }
    done += static_cast<std::size_t>(got);
  }
  return text;
}

PathKind path_kind(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT) return PathKind::kMissing;
  if (::stat(path.c_str(), &status) != 0) return PathKind::kOther;
  return S_ISDIR(status.st_mode) ? PathKind::kFolder : PathKind::kOther;
}

Result<std::string> read_file(const std::string& path, Bytes max) {
  SHARDLIGHT_TRY(const File file, File::open(path));
  if (file.size() > max) {
    return failure(
        path, fmt::format("has {} bytes; at most {} are read", file.size().value(), max.value()));
  }
  return file.read(Bytes(0), file.size());
}

}  // namespace shardlight::io
