// Reading files: every short read, missing file and oversized file is an error that says which.
// Not for writing. A File closes itself; one File is used by one thread at a time.
// Owns its descriptor.
#pragma once

#include <string>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight::io {

class File {
 public:
  // Errors (environment): what open and stat say; not a regular file.
  static Result<File> open(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  Bytes size() const { return size_; }
  int descriptor() const { return descriptor_; }
  // Exactly `length` bytes from `offset`. Errors (environment): fewer are there; what read says.
  Result<std::string> read(Bytes offset, Bytes length) const;

 private:
  File(int descriptor, std::string path, Bytes size)
      : descriptor_(descriptor), path_(std::move(path)), size_(size) {}

  int descriptor_ = -1;
  std::string path_;
  Bytes size_;
};

enum class PathKind { kMissing, kFolder, kOther };

// What is there now, links followed. What may not be looked at or leads nowhere is kOther: opening
// it says why.
PathKind path_kind(const std::string& path);

// The whole file, of at most `max` bytes; a larger one is an error (environment).
Result<std::string> read_file(const std::string& path, Bytes max);

}  // namespace shardlight::io
