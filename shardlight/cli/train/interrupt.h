// Whether the user wants the run to end: the first SIGINT is taken as a wish, which a rank looks at
// between two steps; a second one ends the process at once. Make it before any thread is started,
// as threads inherit that the signal waits. Owns its descriptor; one thread.
#pragma once

#include <csignal>

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
  bool came();

 private:
  int descriptor_ = -1;
  sigset_t before_{};
  bool came_ = false;
};

}  // namespace shardlight::cli
