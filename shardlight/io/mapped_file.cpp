#include "shardlight/io/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shardlight/io/file.h"

namespace shardlight::io {

Result<MappedFile> MappedFile::open(const std::string& path) {
  SHARDLIGHT_TRY(const File file, File::open(path));
  const auto length = static_cast<std::size_t>(file.size().value());
  if (length == 0) return MappedFile({});
  void* const at = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (at == MAP_FAILED) {
    return Failure(Error::environment({.operation = "mapping " + path}, std::strerror(errno),
                                      Unusable::kOperation));
  }
  return MappedFile({static_cast<const std::byte*>(at), length});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace shardlight::io
