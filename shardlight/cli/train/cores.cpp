#include "shardlight/cli/train/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>

#include "shardlight/cli/train/launchers.h"

namespace shardlight::cli {
namespace {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

bool pin_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

std::string Cores::text() const {
  const std::string count = fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
  if (pinned.empty()) return count + ", not pinned";
  return fmt::format("{}, pinned to core{} {}", count, pinned.size() == 1 ? "" : "s",
                     fmt::join(pinned, ", "));
}

Cores share_of_cores(const std::vector<int>& allowed, std::int64_t local, std::int64_t world_local,
                     std::int64_t threads) {
  const auto count = static_cast<std::int64_t>(allowed.size());
  const std::int64_t each = std::max<std::int64_t>(1, count / world_local);
  Cores cores{.threads = threads == 0 ? each : threads, .pinned = {}};
  if (count == 0) return cores;
  for (std::int64_t i = 0; i < each; ++i) {
    cores.pinned.push_back(allowed[static_cast<std::size_t>((local * each + i) % count)]);
  }
  return cores;
}

Cores take_cores(const comm::Place& place, std::int64_t threads) {
  Cores cores =
      share_of_cores(allowed_cores(), place.rank_local.value(), place.world_local, threads);
  if (!pins_ranks(place) || !pin_to(cores.pinned)) cores.pinned.clear();
  return cores;
}

}  // namespace shardlight::cli
