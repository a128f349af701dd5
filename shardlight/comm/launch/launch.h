// Starts the ranks of a job as processes of this host and looks after them until all have ended:
// shows or files their output, passes signals on, and when one dies ends the others within a
// second. No rank, nor what a rank has started, outlives launch_ranks(), or the launching process.
//
// It waits for any child and takes over SIGINT, SIGTERM and SIGCHLD while it runs: for the only
// thread of a process.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "shardlight/base/result.h"

namespace shardlight::comm {

enum class RankOutput { kInherited, kPrefixed, kFiles };

struct LaunchOptions {
  std::int64_t ranks = 1;            // 1 to 1024
  std::vector<std::string> command;  // the program, looked for in PATH, and its arguments
  RankOutput output = RankOutput::kInherited;
  std::string folder;  // of kFiles: rank0.log, …; made if it is not there
};

// How a job ended: by the first rank that failed, if any did.
struct LaunchEnd {
  int exit_code = 0;  // the rank's; 128 + the signal's number
  std::string text;   // "rank 1 died of SIGKILL", "rank 0 exited with code 3"; "" if all went well
};

// Each rank has SHARDLIGHT_RANK, SHARDLIGHT_WORLD and SHARDLIGHT_JOB (place.h), OMP_NUM_THREADS for
// its share of the cores unless that is set already, nothing to read on its standard input, and a
// process group of its own. Errors: user errors (`program` that cannot be
// run, `folder`), environment errors where the system has no more processes.
Result<LaunchEnd> launch_ranks(const LaunchOptions& options);

}  // namespace shardlight::comm
