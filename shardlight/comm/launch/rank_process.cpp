#include "shardlight/comm/launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace shardlight::comm {
namespace {

struct Pipe {
  Descriptor read, write;
};

Result<Pipe> new_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Failure(
        Error::environment({.operation = "launch"}, std::strerror(errno), Unusable::kJob));
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

struct Outputs {
  int standard_output = -1;  // -1: as the launcher's
  int standard_error = -1;
};

// In the child, which has one thread; never returns. What keeps it from running goes to `complain`.
[[noreturn]] void become(const RankStart& start, pid_t launcher, Outputs outputs, int complain) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(128 + SIGKILL);  // it died before the line above
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  if (outputs.standard_output >= 0) ::dup2(outputs.standard_output, STDOUT_FILENO);
  if (outputs.standard_error >= 0) ::dup2(outputs.standard_error, STDERR_FILENO);
  ::setenv("SHARDLIGHT_RANK", std::to_string(start.rank).c_str(), 1);
  ::setenv("SHARDLIGHT_WORLD", std::to_string(start.world).c_str(), 1);
  ::setenv("SHARDLIGHT_JOB", start.job.c_str(), 1);
  ::setenv("OMP_NUM_THREADS", std::to_string(start.threads).c_str(), 0);
  std::vector<char*> words;
  for (const std::string& word : start.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  const int code = errno;
  [[maybe_unused]] const ssize_t written = ::write(complain, &code, sizeof code);
  ::_exit(127);
}

}  // namespace

Result<RankProcess> start_rank(const RankStart& start) {
  SHARDLIGHT_TRY(Pipe complaint, new_pipe());
  Pipe output, error;
  Descriptor file;
  Outputs outputs;
  if (start.piped) {
    SHARDLIGHT_TRY(output, new_pipe());
    SHARDLIGHT_TRY(error, new_pipe());
    outputs = {.standard_output = output.write.get(), .standard_error = error.write.get()};
  } else if (!start.file.empty()) {
    file = Descriptor(::open(start.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file) return user_error("--output", start.file, std::strerror(errno));
    outputs = {.standard_output = file.get(), .standard_error = file.get()};
  }
  const pid_t launcher = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) become(start, launcher, outputs, complaint.write.get());
  if (process < 0) {
    return Failure(Error::environment({.rank = Rank(start.rank), .operation = "launch"},
                                      std::strerror(errno), Unusable::kJob));
  }
  ::setpgid(process, process);  // also here, so that it is one before anybody signals it
  complaint.write = Descriptor();
  RankProcess rank{.rank = start.rank, .process = process, .group = process};
  if (start.piped) rank.pipes = {std::move(output.read), std::move(error.read)};
  int code = 0;
  if (::read(complaint.read.get(), &code, sizeof code) == sizeof code) {
    return user_error("program", start.command.front(),
                      std::string("a program that can be run (") + std::strerror(code) + ")");
  }
  return rank;
}

void signal_rank(const RankProcess& rank, int signal) {
  if (rank.group > 0) ::kill(-rank.group, signal);
}

}  // namespace shardlight::comm
