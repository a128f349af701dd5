// Puts `[rank] ` before each line of a rank's output as it comes in pieces. A line that is not
// complete waits for its rest, up to 64 KiB. Pure; one thread.
#pragma once

#include <string>
#include <string_view>

namespace shardlight::comm {

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // What can be shown by now.
  std::string take(std::string_view piece);
  // The last line, where it did not end with a line break.
  std::string rest();

 private:
  std::string prefix_;
  std::string line_;
};

}  // namespace shardlight::comm
