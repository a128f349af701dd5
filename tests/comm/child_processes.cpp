#include "tests/comm/child_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "shardlight/comm/deadline.h"

namespace shardlight::comm {
namespace {

constexpr unsigned kAlarmSeconds = 300;

[[noreturn]] void run_child(const ChildProcesses::Body& body, int index, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kAlarmSeconds);
  std::string text;
  try {
    text = body(index);
  } catch (const std::exception& thrown) {
    text = std::string("threw: ") + thrown.what();
  }
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t now = ::write(pipe, text.data() + written, text.size() - written);
    if (now <= 0) ::_exit(9);
    written += static_cast<std::size_t>(now);
  }
  ::_exit(0);
}

}  // namespace

ChildProcesses::ChildProcesses(int count, const Body& body) {
  for (int index = 0; index < count; ++index) {
    std::array<int, 2> pipe{-1, -1};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) std::terminate();
    const pid_t process = ::fork();
    if (process == 0) run_child(body, index, pipe[1]);
    ::close(pipe[1]);
    children_.push_back({.process = process, .pipe = pipe[0]});
  }
}

ChildProcesses::~ChildProcesses() {
  for (const Child& child : children_) {
    if (child.pipe >= 0) ::close(child.pipe);
    if (child.process < 0) continue;
    ::kill(child.process, SIGKILL);
    ::waitpid(child.process, nullptr, 0);
  }
}

std::vector<ChildProcesses::End> ChildProcesses::ends(Seconds limit) {
  const Deadline deadline(limit);
  std::vector<End> ends(children_.size());
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    while (child.pipe >= 0) {
      pollfd polled{.fd = child.pipe, .events = POLLIN, .revents = 0};
      const double left = std::clamp(deadline.left().count() * 1e3, 0.0, 1e6);
      if (::poll(&polled, 1, static_cast<int>(left)) <= 0) {
        ends[i].straggled = true;
        ::kill(child.process, SIGKILL);
      }
      std::array<char, 4096> part{};
      const ssize_t got = ::read(child.pipe, part.data(), part.size());
      if (got > 0) {
        ends[i].text.append(part.data(), static_cast<std::size_t>(got));
      } else {
        ::close(std::exchange(child.pipe, -1));
      }
    }
    ::waitpid(std::exchange(child.process, -1), &ends[i].status, 0);
  }
  return ends;
}

void* shared_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::terminate();
  return memory;
}

}  // namespace shardlight::comm
