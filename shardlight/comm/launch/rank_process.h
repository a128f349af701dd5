// One rank of a launch: its process, the process group it leads, and the pipes of its output.
// Internal to launch/; one thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/comm/shared/segment.h"

namespace shardlight::comm {

struct RankStart {
  std::int64_t rank = 0;
  std::int64_t world = 1;
  std::string job;
  std::vector<std::string> command;
  std::int64_t threads = 1;  // OMP_NUM_THREADS, unless that is set
  bool piped = false;
  std::string file = {};  // for all output, unless empty
};

struct RankProcess {
  std::int64_t rank = 0;
  pid_t process = -1;  // -1 once it has been waited for
  pid_t group = -1;
  std::array<Descriptor, 2> pipes = {};  // of standard output and error, where piped
};

Result<RankProcess> start_rank(const RankStart& start);
void signal_rank(const RankProcess& rank, int signal);

}  // namespace shardlight::comm
