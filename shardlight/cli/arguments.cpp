#include "shardlight/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardlight/base/nearest.h"

namespace shardlight::cli {
namespace {

constexpr std::size_t kHelpColumn = 30;

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h"; }

const OptionHelp* find(const CommandHelp& command, const std::string& name) {
  for (const OptionHelp& option : command.options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

Failure unknown_word(const CommandHelp& command, const std::string& word) {
  const std::string allowed = "an option of " + command.usage + " (see --help)";
  if (!word.starts_with('-')) return user_error("argument", word, allowed);
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options) names.push_back(option.name);
  return user_error("option", word, did_you_mean(names, word) + allowed);
}

std::string help_of(const CommandHelp& command) {
  std::string text = fmt::format("{}\n\nUsage: {} [OPTIONS]\n", command.summary, command.usage);
  std::string group;
  for (const OptionHelp& option : command.options) {
    if (option.group != group) text += fmt::format("\n{}:\n", option.group);
    group = option.group;
    const std::string left = fmt::format("  {} {}", option.name, option.argument);
    text += fmt::format("{:<{}}{}\n", left, kHelpColumn, option.help);
  }
  text += fmt::format("\n{:<{}}Print this\n", "  -h, --help", kHelpColumn);
  return command.footer.empty() ? text : text + "\n" + command.footer + "\n";
}

}  // namespace

Result<Parsed> parse_arguments(const CommandHelp& command,
                               const std::vector<std::string>& arguments) {
  if (std::any_of(arguments.begin(), arguments.end(), asks_for_help)) {
    return Parsed{.given = {}, .help = help_of(command)};
  }
  Parsed parsed;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const OptionHelp* option = find(command, name);
    if (option == nullptr) return unknown_word(command, name);
    const bool flag = option->argument.empty();
    std::string value = flag ? kGiven : "";
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
      if (flag) return user_error(name, value, "no value: it is a flag");
    } else if (!flag && i + 1 < arguments.size() && find(command, arguments[i + 1]) == nullptr) {
      value = arguments[++i];
    }
    if (value.empty()) return user_error(name, "", "a value, " + option->argument);
    if (!parsed.given.emplace(name, value).second) return user_error(name, value, "once");
  }
  return parsed;
}

}  // namespace shardlight::cli
