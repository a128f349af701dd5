// Whether the user wants the run to end: the first SIGINT is taken as a wish, which a rank looks at
// between two steps; a second one ends the process at once, whatever it waits for. Make it before
// any thread is started, as all but its own are to leave the signal alone. Owns a thread and its
// descriptors; came() is for any thread.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace shardlight::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt(Interrupt&&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  Interrupt& operator=(Interrupt&&) = delete;

  // Whether it has come by now.
  bool came() const { return came_; }

 private:
  void watch();

  int signal_ = -1;  // readable once it has come
  int end_ = -1;     // readable once the watching is to end
  sigset_t ours_{}, before_{};
  struct sigaction action_before_ {};
  std::atomic<bool> came_{false};
  std::thread watcher_;
};

}  // namespace shardlight::cli
