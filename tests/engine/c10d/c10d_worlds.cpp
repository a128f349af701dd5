// The one world of a job: each process is a rank and runs the same tests in the same order. What
// the ranks say is given to all of them by the store, so all come to the same verdict.
#include <fmt/format.h>

#include <algorithm>

#include "shardlight/engine/c10d/c10d_world.h"
#include "tests/comm/worlds.h"
#include "tests/engine/c10d/meeting.h"

namespace shardlight::engine {

Meeting& meeting() {
  static Meeting meeting;
  return meeting;
}

Result<std::unique_ptr<comm::Transport>> connect(const std::vector<comm::UnitSpec>& units,
                                                 comm::Deadline deadline) {
  return connect_c10d(meeting().new_group(), meeting().store, units, deadline);
}

}  // namespace shardlight::engine

namespace shardlight::comm {

using engine::meeting;

std::vector<WorldCase> worlds(const std::vector<std::int64_t>& sizes) {
  const std::int64_t ranks = meeting().world;
  if (std::find(sizes.begin(), sizes.end(), ranks) == sizes.end()) return {};
  return {{.kind = WorldKind::kProcesses, .ranks = ranks}};
}

std::string name_of(const WorldCase& world) { return fmt::format("c10d{}", world.ranks); }

std::ostream& operator<<(std::ostream& out, const WorldCase& world) {
  return out << name_of(world);
}

std::vector<std::string> run_world(const WorldCase& world, const std::vector<UnitSpec>& units,
                                   const RankBody& body) {
  static int runs = 0;
  const int run = runs++;
  const auto key = [&](std::int64_t rank) { return fmt::format("said/{}/{}", run, rank); };
  std::string own;
  {
    auto transport = engine::connect(units, ample());
    own = transport ? body(**transport) : transport.error().message();
  }
  meeting().store->set(key(meeting().rank.value()), own);
  std::vector<std::string> said;
  for (std::int64_t rank = 0; rank < world.ranks; ++rank) {
    said.push_back(meeting().store->get_to_str(key(rank)));
  }
  return said;
}

Deadline ample() { return Deadline(Seconds(120)); }

}  // namespace shardlight::comm
