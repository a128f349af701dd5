// `shardlight plan`: its command line, and the answer in the form that was asked for. Reads the
// files that are named and writes nothing; printing is the program's (program.h).
#pragma once

#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/cli/report.h"
#include "shardlight/telemetry/log.h"

namespace shardlight::cli {

// What is to be written to the output. `arguments` without "plan"; `style` for the table. --help
// is an answer, too. Errors: whatever the arguments and the files they name get wrong.
Result<std::string> run_plan(const std::vector<std::string>& arguments, Style style,
                             const telemetry::Logger& log);

}  // namespace shardlight::cli
