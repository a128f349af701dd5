// What the kernel says this process takes of the machine's memory; for measurements of the engine,
// here and in tests. Any thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace shardlight {

// Anonymous and shared memory, each page divided by the processes that map it. The rest are files,
// whose pages are shared with whoever else runs torch on this machine.
inline std::int64_t proportional_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  std::int64_t kib = 0, sum = 0;
  while (rollup >> word) {
    if (word == "Pss_Anon:" || word == "Pss_Shmem:") rollup >> kib, sum += kib;
  }
  return sum * 1024;
}

}  // namespace shardlight
