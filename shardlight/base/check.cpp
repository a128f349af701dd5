#include "shardlight/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace shardlight {

void check_failed(std::string_view condition, long long left, long long right, const char* file,
                  int line) {
  std::fprintf(stderr, "a bug in shardlight: %.*s does not hold (%lld against %lld) at %s:%d\n",
               static_cast<int>(condition.size()), condition.data(), left, right, file, line);
  std::abort();
}

}  // namespace shardlight
