#include "shardlight/cli/program.h"

#include <exception>
#include <optional>
#include <ostream>

#include "shardlight/base/nearest.h"
#include "shardlight/cli/launch_command.h"
#include "shardlight/cli/output.h"
#include "shardlight/cli/plan_command.h"
#include "shardlight/cli/train/train_command.h"
#include "shardlight/cli/version.h"
#include "shardlight/telemetry/log.h"

namespace shardlight::cli {
namespace {

constexpr const char* kHelp =
    "shardlight: ZeRO training for any PyTorch model\n"
    "\n"
    "Usage: shardlight COMMAND [OPTIONS]\n"
    "\n"
    "Commands:\n"
    "  plan       What a run costs per rank: memory, traffic, what fits, advice\n"
    "  train      Train a GPT on text as N ranks of this machine\n"
    "  launch     Start a program as N ranks on this machine\n"
    "\n"
    "Options:\n"
    "  --version  Print the version\n"
    "  -h,--help  Print this; after a command, its options\n"
    "\n"
    "Exit codes: 0 done, 1 the surroundings failed, 2 a mistake in what was asked; of launch\n"
    "and train, that of the rank that failed.\n"
    "SHARDLIGHT_LOG=debug|info|warn|error|off sets what is logged on stderr.\n";

Result<std::string> answer(const std::vector<std::string>& arguments,
                           const Environment& environment, bool terminal) {
  SHARDLIGHT_TRY(const auto level, telemetry::log_level(environment));
  const telemetry::Logger log(level);
  const Style style{.colour = terminal && !environment.text("NO_COLOR")};
  if (arguments.empty())
    return user_error("command", "", "plan, train or launch (see shardlight --help)");
  const std::string& command = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  const bool help = command == "--help" || command == "-h" || command == "help";
  if ((help || command == "--version") && !rest.empty()) {
    return user_error("argument", rest.front(), "nothing after " + command);
  }
  if (help) return std::string(kHelp);
  if (command == "--version") return "shardlight " + std::string(kVersion) + "\n";
  if (command == "plan") return run_plan(rest, style, log);
  const std::vector<std::string> names = {"plan", "train", "launch", "--help", "--version"};
  return user_error("command", command, one_of(names, command));
}

// Of the commands that start processes: their exit code. Nothing of the others.
std::optional<Result<int>> start_ranks(const std::vector<std::string>& arguments,
                                       const Environment& environment, const Streams& streams) {
  if (arguments.empty()) return std::nullopt;
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (arguments.front() == "launch") return run_launch(rest, streams.out, streams.err);
  if (arguments.front() != "train") return std::nullopt;
  return run_train(rest, environment, streams.out, streams.err);
}

int report_error(const Error& error, std::ostream& err) {
  err << "shardlight: " << error.message() << "\n";
  return error.category() == ErrorCategory::kUser ? kExitUsage : kExitFailure;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Environment& environment,
                const Streams& streams) {
  try {
    if (const auto code = start_ranks(arguments, environment, streams)) {
      return *code ? **code : report_error(code->error(), streams.err);
    }
    const auto text = answer(arguments, environment, streams.terminal);
    if (!text) return report_error(text.error(), streams.err);
    streams.out << *text;
    const Status written = flush_output(streams.out);
    return written ? kExitOk : report_error(written.error(), streams.err);
  } catch (const std::exception& unexpected) {
    return report_error(Error::bug(unexpected.what()), streams.err);
  }
}

}  // namespace shardlight::cli
