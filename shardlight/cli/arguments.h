// From words on a command line to options by name, for commands whose options are declared as
// data, and their --help. Ours, as every error has to name the option, the value and what is
// allowed, and `--ranks -1` has a value (docs/architecture.md). Pure; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/result.h"

namespace shardlight::cli {

// The option's name to its text; kGiven for a flag.
using Given = std::map<std::string, std::string>;
inline constexpr const char* kGiven = "given";

struct OptionHelp {
  std::string name;      // "--ranks"
  std::string argument;  // "N"; empty for a flag
  std::string group;     // options of one group stand together in --help
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
  std::optional<std::string> help;  // the text, where --help or -h was among the words
};

// Both `--name value` and `--name=value`; a value may begin with a dash but not be an option's
// name. Errors (user): an option that is unknown, given twice, or lacks its value; a flag with one;
// a word that belongs to no option.
Result<Parsed> parse_arguments(const CommandHelp& command,
                               const std::vector<std::string>& arguments);

}  // namespace shardlight::cli
