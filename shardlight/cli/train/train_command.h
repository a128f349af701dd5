// `shardlight train`: checks the config, the data and the plan, then starts the ranks, processes of
// shardlight-train, or becomes the one rank that its own launcher has started it as. Free of torch,
// which only the ranks load.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "shardlight/base/environment.h"
#include "shardlight/base/result.h"
#include "shardlight/cli/train/read_config.h"

namespace shardlight::cli {

// What the words on the command line are, for both programs.
struct TrainArguments {
  std::string config_path;  // empty: none
  Given flags;
  std::optional<std::string> help;
};
Result<TrainArguments> parse_train_arguments(const std::vector<std::string>& arguments);

// The exit code. `arguments` without "train"; --help is written to `out`, how a failed job ended to
// `err`. Errors: whatever the arguments, the config and the files it names get wrong; a build
// without the engine.
Result<int> run_train(const std::vector<std::string>& arguments, const Environment& environment,
                      std::ostream& out, std::ostream& err);

}  // namespace shardlight::cli
