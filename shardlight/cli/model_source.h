// Where a model on the command line comes from: a built-in name, a Hugging Face config.json or the
// folder that holds one, a .safetensors file. Reads files; what they say is the plan library's.
// Not a loader: of weights only the header is read. Any thread.
#pragma once

#include <string>

#include "shardlight/base/result.h"
#include "shardlight/plan/model.h"

namespace shardlight::cli {

// Errors: user, `field` and below it the file's own field; environment, a file that cannot be read.
Result<plan::Model> load_model(const std::string& field, const std::string& source);

}  // namespace shardlight::cli
