#include "shardlight/comm/threads/threads_world.h"

#include <fmt/format.h>

#include "shardlight/comm/shared/shared_transport.h"

namespace shardlight::comm {
namespace {

// A thread does not die without the process.
class Immortal final : public Peers {
 public:
  bool dead(Rank /*rank*/) override { return false; }
};

}  // namespace

Result<std::vector<std::unique_ptr<Transport>>> make_threads_world(
    const std::vector<UnitSpec>& units, std::int64_t world) {
  SHARDLIGHT_TRY_STATUS(check_shared_world(world));
  SHARDLIGHT_TRY_STATUS(check_units(units, world));
  SHARDLIGHT_TRY(Segment memory, Segment::anonymous(SharedLayout(units, world).size()));
  const auto segment = std::make_shared<Segment>(std::move(memory));
  std::vector<std::unique_ptr<Transport>> ranks;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    auto transport = std::make_unique<SharedTransport>(segment, units, Rank(rank), world,
                                                       std::make_unique<Immortal>());
    transport->populate_own();
    ranks.push_back(std::move(transport));
  }
  return ranks;
}

}  // namespace shardlight::comm
