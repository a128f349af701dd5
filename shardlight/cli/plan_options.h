// The options of `shardlight plan`, declared as data: a row has the name, what it takes, the help,
// and how its text gets into the request. A field of PlanRequest that the library refuses is shown
// under the option it came from. Constant data; only plan_request reads a file, the model's.
#pragma once

#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/cli/arguments.h"
#include "shardlight/plan/planner.h"

namespace shardlight::cli {

struct OptionRow {
  const char* name;      // "--ranks"
  const char* argument;  // "N"; empty for a flag
  const char* group;
  const char* help;
  // Without these the option would change nothing and is refused: "--a --b,--c" is one of --a and
  // --b, and --c. Empty: none.
  const char* needs;
  // With this one it would say the same thing twice. Empty: none.
  const char* excludes;
  // Reads the text; does nothing for --model and --params, which plan_request sees to itself.
  Status (*apply)(const std::string& name, const std::string& text, plan::PlanRequest& request);
};

const std::vector<OptionRow>& plan_options();

// The request that the options make. Errors: of the options, by their names; of the model's file.
Result<plan::PlanRequest> plan_request(const Given& given);

// The same error under the option's name, where the library refused a field of the request.
Error option_error(Error error, const Given& given);

}  // namespace shardlight::cli
