// The program `shardlight`, as a function: arguments and surroundings in, output and exit code out.
// main() only gives it the process's own.
// One call a process; it holds nothing after.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "shardlight/base/environment.h"

namespace shardlight::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the environment, or a bug
inline constexpr int kExitUsage = 2;    // a user's mistake, named on `err`

struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;  // `out` is one: colour is used unless NO_COLOR is set
};

// `arguments` without the program's name.
int run_program(const std::vector<std::string>& arguments, const Environment& environment,
                const Streams& streams);

}  // namespace shardlight::cli
