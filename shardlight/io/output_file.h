// Writing files that only grow, such as a run's record: every short write and full disk is an error
// that says which file. Nothing is kept back: what was appended is with the system. Not for
// reading, nor for replacing a file that others rely on. Owns its descriptor; one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shardlight/base/result.h"

namespace shardlight::io {

class OutputFile {
 public:
  // Makes the file, or empties it. Errors (environment): what open says.
  static Result<OutputFile> create(const std::string& path);
  // The same of a file that only one process writes to: nothing, and no change, where another one
  // has it open by this. The kernel lets go of it however the process ends. A file system that
  // knows no locks keeps nobody out.
  static Result<std::optional<OutputFile>> create_alone(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Errors (environment): what write says.
  Status append(std::string_view text);

 private:
  OutputFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_ = -1;
  std::string path_;
};

// The folder and those above it that are missing. Errors (environment): what mkdir says.
Status make_folder(const std::string& path);

}  // namespace shardlight::io
