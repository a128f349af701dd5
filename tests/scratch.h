// Files that a test writes, in a folder of its process alone: ctest runs the cases of one program
// side by side, so what stood in a folder of all would be written by one and read by another.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shardlight {

// Gone when the process ends.
class ScratchFolder {
 public:
  ScratchFolder() {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;  // a folder left behind fails no test
    if (::getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "shardlight_test_XXXXXX";
  pid_t owner_ = ::getpid();  // a forked child leaves it to its parent
};

inline std::string scratch_path(const std::string& name) {
  static const ScratchFolder kFolder;
  return kFolder.path() + "/" + name;
}

// Writes `text` to the file of that name, in place of what it held, and returns its path.
inline std::string scratch_file(const std::string& name, const std::string& text) {
  std::string path = scratch_path(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace shardlight
