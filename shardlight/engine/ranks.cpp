#include "shardlight/engine/ranks.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "shardlight/comm/place.h"
#include "shardlight/comm/shm/shm_world.h"
#include "shardlight/comm/threads/threads_world.h"

namespace shardlight::engine {
namespace {

using Transports = std::vector<std::unique_ptr<comm::Transport>>;

// Engines of a process are told apart by their order of making, which is the same on all ranks.
std::string next_job(const std::string& job) {
  static std::atomic<int> made{0};
  return job + "/" + std::to_string(made++);
}

// Made by whoever of the threads comes first, for all of them.
class ThreadsWorld {
 public:
  explicit ThreadsWorld(std::int64_t world) : world_(world) {}

  Result<std::unique_ptr<comm::Transport>> take(const std::vector<comm::UnitSpec>& units,
                                                std::size_t rank) {
    const std::scoped_lock lock(mutex_);
    if (transports_.empty()) {
      SHARDLIGHT_TRY(transports_, comm::make_threads_world(units, world_));
      units_ = comm::text_of(units);
    }
    if (comm::text_of(units) != units_) {
      transports_.at(rank).reset();  // the others are told that this rank has left
      return user_error("model and options", "other units on some ranks than on others",
                        "the same parameters, stage and unit_bytes on all ranks");
    }
    if (!transports_.at(rank)) {
      return user_error("ranks", "those of an engine that was made before",
                        "new ones, of ranks_as_threads(), for each engine");
    }
    return std::move(transports_.at(rank));
  }

 private:
  std::mutex mutex_;
  std::int64_t world_;
  Transports transports_;
  std::string units_;  // of the first to come
};

}  // namespace

Result<Ranks> ranks_of_host(Seconds deadline) {
  SHARDLIGHT_TRY(const comm::Place place, comm::place_of(Environment::of_process()));
  if (place.world_local != place.world) {
    return user_error("ranks", std::to_string(place.world) + " of " + place.launcher,
                      "as many ranks as this host has (" + std::to_string(place.world_local) +
                          "): the transport shm ends at the host");
  }
  if (place.world == 1) return ranks_as_threads(1).front();
  Ranks ranks{.rank = place.rank, .world = place.world, .connect = {}};
  ranks.connect = [=](const std::vector<comm::UnitSpec>& units) {
    return comm::connect_shm({.job = next_job(place.job), .rank = place.rank, .world = place.world},
                             units, comm::Deadline(deadline));
  };
  return ranks;
}

std::vector<Ranks> ranks_as_threads(std::int64_t world) {
  const auto shared = std::make_shared<ThreadsWorld>(world);
  std::vector<Ranks> ranks;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    ranks.push_back({.rank = Rank(rank),
                     .world = world,
                     .connect = [=](const std::vector<comm::UnitSpec>& units) {
                       return shared->take(units, static_cast<std::size_t>(rank));
                     }});
  }
  return ranks;
}

}  // namespace shardlight::engine
