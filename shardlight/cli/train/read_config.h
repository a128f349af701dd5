// From a config file and the flags beside it to a TrainConfig: every key is known, every value
// allowed, and what one setting demands of another holds. Reads the config file and nothing it
// names. Any thread.
#pragma once

#include <map>
#include <string>

#include "shardlight/cli/arguments.h"
#include "shardlight/cli/train/train_config.h"

namespace shardlight::cli {

enum class SettingOrigin { kDefault, kConfig, kFlag, kLauncher };

struct TrainRequest {
  TrainConfig config;
  std::map<std::string, SettingOrigin> origins;  // by path, of those that were given

  SettingOrigin origin(const std::string& path) const;
};

// A key as the config file or the flags know it, for errors: "examples/gpt.json: model.layers".
// `text` is a JSON object. Errors (user): by the key's path under `name`, or by the flag.
Result<TrainRequest> read_train_request(const std::string& name, const std::string& text,
                                        const Given& flags);
// The same from the file; no file (an empty path): defaults and flags alone. Errors (environment):
// it cannot be read.
Result<TrainRequest> load_train_request(const std::string& path, const Given& flags);

}  // namespace shardlight::cli
