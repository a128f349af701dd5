// From words on a command line to options by name, for commands whose options are declared as
// data. Parsing and --help are CLI11's; the errors are in our words.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/result.h"

namespace shardlight::cli {

// The option's name to its text; "true" for a flag.
using Given = std::map<std::string, std::string>;

struct OptionHelp {
  std::string name;      // "--ranks"
  std::string argument;  // "N"; empty for a flag
  std::string group;
  std::string help;
};

struct CommandHelp {
  std::string usage;  // "shardlight plan"
  std::string summary;
  std::string footer;
  std::vector<OptionHelp> options;
};

struct Parsed {
  Given given;
  std::optional<std::string> help;  // the text, where --help was asked for
};

// Both `--name value` and `--name=value`; a value may begin with a dash. Errors (user): an option
// that is unknown, given twice, or lacks its value; a word that belongs to no option.
Result<Parsed> parse_arguments(const CommandHelp& command,
                               const std::vector<std::string>& arguments);

}  // namespace shardlight::cli
