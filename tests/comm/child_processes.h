// Processes of a test: forked, each runs a function and sends its text back through a pipe. No test
// can hang on them: each has an alarm, and whoever is left when the parent's limit has passed, or
// the parent itself goes, is killed. For one thread; nothing else of the test runs during a fork.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "shardlight/base/quantity.h"

namespace shardlight::comm {

class ChildProcesses {
 public:
  using Body = std::function<std::string(int index)>;

  struct End {
    std::string text;        // what the function returned, as far as it came
    int status = 0;          // of waitpid
    bool straggled = false;  // killed for being late
  };

  ChildProcesses(int count, const Body& body);
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  pid_t process(int index) const { return children_[index].process; }
  // Until all have ended; by index.
  std::vector<End> ends(Seconds limit);

 private:
  struct Child {
    pid_t process = -1;
    int pipe = -1;
  };

  std::vector<Child> children_;
};

// A zeroed T that parent and children share, for as long as the test program runs.
void* shared_memory(std::size_t bytes);
template <class T>
T* shared() {
  return static_cast<T*>(shared_memory(sizeof(T)));
}

}  // namespace shardlight::comm
