// The options of `shardlight plan`, declared as data: a row has the name, what it takes, the help,
// and how its text gets into the request. A field of PlanRequest that the library refuses is shown
// under the option of the same name (device_memory: --device-memory).
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
  // Options of which one must be given too, or this one would change nothing and is refused:
  // separated by spaces; empty: none.
  const char* needs;
  // Reads the text; does nothing for --model and --params, which plan_request sees to itself.
  Status (*apply)(const std::string& name, const std::string& text, plan::PlanRequest& request);
};

const std::vector<OptionRow>& plan_options();

// The request that the options make. Errors: of the options, by their names; of the model's file.
Result<plan::PlanRequest> plan_request(const Given& given);

// The same error under the option's name, where the library refused a field of the request.
Error option_error(Error error);

}  // namespace shardlight::cli
