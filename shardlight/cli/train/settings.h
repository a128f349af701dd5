// The settings of `shardlight train`, declared as data: a row has the key's path in the config, the
// flag that overrides it, where its value is kept, what is allowed, and the help. The check of a
// config, the table at start and --help all walk this list. Constant data; any thread.
#pragma once

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "shardlight/cli/train/train_config.h"

namespace shardlight::cli {

// Where a setting's value is kept; the type says which texts and JSON values are taken.
using SettingField =
    std::variant<std::int64_t*, double*, std::optional<double>*, Bytes*, std::optional<Bytes>*,
                 bool*, std::string*, std::vector<std::string>*, std::array<double, 2>*,
                 std::vector<GroupConfig>*>;

// Inclusive. Of numbers and bytes.
struct SettingRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
};

// A setting that means something only where another one, a choice or a flag, has one of these
// values ("true", "false" of a flag); else it is refused rather than ignored.
struct SettingNeeds {
  std::string path = {};
  std::vector<std::string> values = {};
};

struct Setting {
  std::string path;  // "model.layers"
  std::string help;
  SettingField (*field)(TrainConfig& config);
  SettingRange range = {};
  std::vector<std::string> choices = {};  // of a text; empty: any
  SettingNeeds needs = {};
  std::string flag = {};      // "--steps"; empty: none
  std::string argument = {};  // what the flag takes; empty: nothing
};

// In the order in which they are shown.
const std::vector<Setting>& train_settings();

// Nothing where there is none of that path.
const Setting* find_setting(const std::string& path);

}  // namespace shardlight::cli
