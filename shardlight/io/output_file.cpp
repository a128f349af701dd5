#include "shardlight/io/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace shardlight::io {
namespace {

Failure write_failure(const std::string& operation, std::string detail) {
  return Failure(
      Error::environment({.operation = operation}, std::move(detail), Unusable::kOperation));
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return write_failure("writing " + path, std::strerror(errno));
  return OutputFile(descriptor, path);
}

Result<std::optional<OutputFile>> OutputFile::create_alone(const std::string& path) {
  OutputFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), path);
  if (file.descriptor_ < 0) return write_failure("writing " + path, std::strerror(errno));
  int locked = 0;
  while ((locked = ::flock(file.descriptor_, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
  }
  if (locked != 0 && errno == EWOULDBLOCK) return std::nullopt;
  const bool no_locks = errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK;
  if ((locked != 0 && !no_locks) || ::ftruncate(file.descriptor_, 0) != 0) {
    return write_failure("writing " + path, std::strerror(errno));
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status OutputFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return write_failure("writing " + path_, std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return write_failure("making the folder " + path, error.message());
  return {};
}

}  // namespace shardlight::io
