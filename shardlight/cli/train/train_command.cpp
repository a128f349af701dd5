#include "shardlight/cli/train/train_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <ostream>

#include "shardlight/cli/output.h"
#include "shardlight/cli/train/preparation.h"
#include "shardlight/cli/train/settings.h"
#include "shardlight/cli/train/start_report.h"
#include "shardlight/cli/version.h"
#include "shardlight/comm/launch/launch.h"
#include "shardlight/io/file.h"

namespace shardlight::cli {
namespace {

constexpr const char* kRankProgram = "shardlight-train";
// As launch_ranks() has it of a rank that died of it.
constexpr int kExitInterrupted = 128 + SIGINT;

CommandHelp train_help() {
  CommandHelp help{.usage = "shardlight train CONFIG",
                   .summary = "Train a GPT on text with ZeRO: shardlight train examples/gpt.json",
                   .footer =
                       "A flag overrides the config. SIGINT ends the run after its step, with the "
                       "summary; a second one\n"
                       "ends it at once, with exit code 130.\n"
                       "mpirun, torchrun and shardlight launch may start the ranks instead:\n"
                       "  mpirun -n 4 shardlight train examples/gpt.json\n"
                       "\n" +
                       settings_help(),
                   .options = {}};
  for (const Setting& setting : train_settings()) {
    if (setting.flag.empty()) continue;
    help.options.push_back({setting.flag, setting.argument, "Instead of the config's",
                            setting.help + " (" + setting.path + ")"});
  }
  help.footer.pop_back();
  return help;
}

Failure no_engine(const std::string& why) {
  return user_error("command", "train", "plan or launch: " + why);
}

// Beside this program, wherever that was installed.
Result<std::string> rank_program() {
  if (!kHasEngine) {
    return no_engine("this build has no engine (it was configured with SHARDLIGHT_ENGINE=OFF)");
  }
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string path = (self.parent_path() / kRankProgram).string();
  if (error || io::path_kind(path) == io::PathKind::kMissing) {
    return no_engine("the program of the ranks is missing, " + path);
  }
  return path;
}

// Only comes back where the program cannot be run.
Failure become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(words.front(), words.data());
  return user_error("program", command.front(),
                    std::string("a program that can be run (") + std::strerror(errno) + ")");
}

}  // namespace

Result<TrainArguments> parse_train_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> rest = arguments;
  TrainArguments parsed;
  if (!rest.empty() && !rest.front().starts_with('-')) {
    parsed.config_path = rest.front();
    rest.erase(rest.begin());
  }
  SHARDLIGHT_TRY(Parsed options, parse_arguments(train_help(), rest));
  parsed.flags = std::move(options.given);
  parsed.help = std::move(options.help);
  if (parsed.config_path.empty() && !parsed.help) {
    return user_error("config", "",
                      "a JSON file before the flags, as in examples/gpt.json "
                      "(see shardlight train --help)");
  }
  return parsed;
}

Result<int> run_train(const std::vector<std::string>& arguments, const Environment& environment,
                      std::ostream& out, std::ostream& err) {
  SHARDLIGHT_TRY(const TrainArguments words, parse_train_arguments(arguments));
  if (words.help) {
    out << *words.help;
    SHARDLIGHT_TRY_STATUS(flush_output(out));
    return 0;
  }
  SHARDLIGHT_TRY(const std::string program, rank_program());
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  SHARDLIGHT_TRY(const comm::Place place, comm::place_of(environment));
  // A rank checks for itself, so that its launcher sees the program it started.
  if (!place.launcher.empty()) return become(command);

  comm::LaunchOptions options{.ranks = 1, .command = command};
  {
    SHARDLIGHT_TRY(TrainRequest request, load_train_request(words.config_path, words.flags));
    SHARDLIGHT_TRY(const Preparation preparation, prepare(std::move(request), place));
    const TrainConfig& config = preparation.config();
    if (config.transport != "threads") options.ranks = config.ranks;
  }
  SHARDLIGHT_TRY(const comm::LaunchEnd end, comm::launch_ranks(options));
  const bool interrupted = end.exit_code == kExitInterrupted;
  const std::string text = interrupted ? "ended at once by SIGINT, without a summary" : end.text;
  if (!text.empty()) err << "shardlight train: " << text << "\n" << std::flush;
  return end.exit_code;
}

}  // namespace shardlight::cli
