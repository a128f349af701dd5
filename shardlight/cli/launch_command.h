// `shardlight launch`: its command line. What it starts writes to the process's own standard output
// and error; who of the ranks died of what is said on `err`.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "shardlight/base/result.h"

namespace shardlight::cli {

// The exit code. `arguments` without "launch"; --help is written to `out`. Errors: whatever the
// arguments get wrong, and a program that cannot be run.
Result<int> run_launch(const std::vector<std::string>& arguments, std::ostream& out,
                       std::ostream& err);

}  // namespace shardlight::cli
