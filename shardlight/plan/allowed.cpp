#include "shardlight/plan/allowed.h"

#include <fmt/format.h>

namespace shardlight::plan {

std::string allowed_whole_number(std::int64_t min, std::int64_t max) {
  return fmt::format("a whole number from {} to {}", min, max);
}

std::string allowed_flag() { return "true or false"; }

}  // namespace shardlight::plan
