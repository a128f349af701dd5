#include "shardlight/cli/launch_command.h"

#include <algorithm>
#include <ostream>

#include "shardlight/base/parse_quantity.h"
#include "shardlight/cli/arguments.h"
#include "shardlight/cli/output.h"
#include "shardlight/comm/launch/launch.h"

namespace shardlight::cli {
namespace {

constexpr const char* kLaunchFooter =
    "Each rank finds SHARDLIGHT_RANK, SHARDLIGHT_WORLD and SHARDLIGHT_JOB in its environment, and\n"
    "OMP_NUM_THREADS for its share of the cores unless that is set. When one dies the others are\n"
    "ended within a second, and the exit code is that rank's (128 + the number of its signal).\n"
    "SIGINT and SIGTERM are passed on.\n"
    "\n"
    "Example:\n"
    "  shardlight launch -n 4 --prefix -- python train.py";

CommandHelp launch_help() {
  return {.usage = "shardlight launch",
          .summary =
              "Start the ranks of a job as processes of this machine: shardlight launch -n 4 -- "
              "PROGRAM …",
          .footer = kLaunchFooter,
          .options = {{"--ranks", "N", "Ranks", "How many; also -n"},
                      {"--prefix", "", "Output", "Put [rank] before each line"},
                      {"--output", "DIR", "Output", "Write DIR/rank0.log and so on instead"}}};
}

}  // namespace

Result<int> run_launch(const std::vector<std::string>& arguments, std::ostream& out,
                       std::ostream& err) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> ours(arguments.begin(), dashes);
  std::replace(ours.begin(), ours.end(), std::string("-n"), std::string("--ranks"));
  SHARDLIGHT_TRY(const Parsed parsed, parse_arguments(launch_help(), ours));
  if (parsed.help) {
    out << *parsed.help;
    SHARDLIGHT_TRY_STATUS(flush_output(out));
    return 0;
  }
  const Given& given = parsed.given;
  if (!given.contains("--ranks")) return user_error("--ranks", "", "how many to start");
  comm::LaunchOptions options;
  SHARDLIGHT_TRY(options.ranks,
                 parse_count("--ranks", given.at("--ranks"), {.min = 1, .max = 1024}));
  if (dashes != arguments.end()) options.command.assign(dashes + 1, arguments.end());
  if (given.contains("--prefix")) options.output = comm::RankOutput::kPrefixed;
  if (given.contains("--output")) {
    if (given.contains("--prefix")) return user_error("--prefix", "true", "only without --output");
    options.output = comm::RankOutput::kFiles;
    options.folder = given.at("--output");
  }
  out << std::flush;
  SHARDLIGHT_TRY(const comm::LaunchEnd end, comm::launch_ranks(options));
  if (!end.text.empty()) err << "shardlight launch: " << end.text << "\n" << std::flush;
  return end.exit_code;
}

}  // namespace shardlight::cli
