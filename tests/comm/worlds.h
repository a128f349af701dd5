// The worlds that the conformance suite runs in: one function as each rank of a transport, ranks as
// threads or as forked processes. A rank returns what is wrong, or nothing; it uses no assertions,
// as those of a forked process would be lost.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"
#include "tests/sanitizers.h"

namespace shardlight::comm {

enum class WorldKind { kThreads, kProcesses };

struct WorldCase {
  WorldKind kind;
  std::int64_t ranks;
};
std::string name_of(const WorldCase& world);
std::ostream& operator<<(std::ostream& out, const WorldCase& world);

// Of each size as threads and as processes, as far as this build can in reasonable time.
std::vector<WorldCase> worlds(const std::vector<std::int64_t>& sizes);

using RankBody = std::function<std::string(Transport&)>;

// By rank; "" where all went well.
std::vector<std::string> run_world(const WorldCase& world, const std::vector<UnitSpec>& units,
                                   const RankBody& body);

// The same in a world of threads, with each rank's transport to keep.
std::vector<std::string> run_threads(
    std::int64_t world, const std::vector<UnitSpec>& units,
    const std::function<std::string(std::unique_ptr<Transport>)>& body);

// A job name that nobody else uses.
std::string new_job();

// A wait that a working exchange never comes near, also under a sanitizer on a busy machine.
Deadline ample();

// Leaves the function with the error's text.
#define SHARDLIGHT_SAY(expression)                                                   \
  do {                                                                               \
    if (const auto& to_say = (expression); !to_say) return to_say.error().message(); \
  } while (false)

}  // namespace shardlight::comm
