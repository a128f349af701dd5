// A file's bytes as memory, read by the system when they are first looked at: for files too large
// to copy. Read-only. A file that is cut short while it is mapped ends the process (SIGBUS), as
// with every mapping. Owns the mapping; any number of threads may read it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "shardlight/base/result.h"

namespace shardlight::io {

class MappedFile {
 public:
  // Errors (environment): what open, stat and mmap say; not a regular file. An empty file has no
  // bytes.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace shardlight::io
