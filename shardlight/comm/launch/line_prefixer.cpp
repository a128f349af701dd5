#include "shardlight/comm/launch/line_prefixer.h"

#include <utility>

namespace shardlight::comm {
namespace {

constexpr std::size_t kMaxLine = 65'536;

}  // namespace

std::string LinePrefixer::take(std::string_view piece) {
  std::string shown;
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    line_ += piece.substr(0, end);
    if (end == std::string_view::npos) {
      if (line_.size() >= kMaxLine) shown += rest();
      break;
    }
    shown += prefix_ + std::exchange(line_, {}) + "\n";
    piece.remove_prefix(end + 1);
  }
  return shown;
}

std::string LinePrefixer::rest() {
  if (line_.empty()) return {};
  return prefix_ + std::exchange(line_, {}) + "\n";
}

}  // namespace shardlight::comm
