#include "shardlight/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "shardlight/base/nearest.h"

namespace shardlight::cli {
namespace {

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
  const auto nearest = nearest_name(word, names);
  return user_error("option", word, (nearest ? "did you mean " + *nearest + "? " : "") + allowed);
}

// Every option with its value in one word, as CLI11 then cannot take a value for an option
// ("--ranks -1") nor an option for a value ("--ranks --json").
Result<std::vector<std::string>> joined(const CommandHelp& command,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  Given seen;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") {
      words.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const OptionHelp* option = find(command, name);
    if (option == nullptr) return unknown_word(command, name);
    const bool flag = option->argument.empty();
    const bool has_value = equals != std::string::npos;
    if (flag && has_value)
      return user_error(name, word.substr(equals + 1), "no value: it is a flag");
    const bool next_is_option = i + 1 < arguments.size() && find(command, arguments[i + 1]);
    if (!flag && !has_value && (i + 1 == arguments.size() || next_is_option)) {
      return user_error(name, "", "a value, " + option->argument);
    }
    const std::string value = flag ? "true" : has_value ? word.substr(equals + 1) : arguments[++i];
    if (!seen.emplace(name, value).second) return user_error(name, value, "once");
    words.push_back(flag ? name : fmt::format("{}={}", name, value));
  }
  return words;
}

}  // namespace

Result<Parsed> parse_arguments(const CommandHelp& command,
                               const std::vector<std::string>& arguments) {
  SHARDLIGHT_TRY(std::vector<std::string> words, joined(command, arguments));
  CLI::App app(command.summary, command.usage);
  app.footer(command.footer);
  app.get_formatter()->column_width(34);
  std::map<std::string, std::string> values;
  std::map<std::string, bool> flags;
  for (const OptionHelp& option : command.options) {
    CLI::Option* added = option.argument.empty()
                             ? app.add_flag(option.name, flags[option.name], option.help)
                             : app.add_option(option.name, values[option.name], option.help)
                                   ->option_text(option.argument);
    added->group(option.group);
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return Parsed{.given = {}, .help = app.help()};
  } catch (const CLI::ParseError& error) {
    return user_error(command.usage, fmt::format("{}", fmt::join(arguments, " ")), error.what());
  }
  Parsed parsed;
  for (const OptionHelp& option : command.options) {
    if (app.count(option.name) == 0) continue;
    parsed.given[option.name] = option.argument.empty() ? "true" : values[option.name];
  }
  return parsed;
}

}  // namespace shardlight::cli
