#include "shardlight/engine/ranks.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "shardlight/comm/place.h"
#include "shardlight/comm/shm/shm_world.h"
#include "shardlight/comm/threads/threads_world.h"

namespace shardlight::engine {
namespace {

using Transports = std::vector<std::unique_ptr<comm::Transport>>;

// Calls of connect are told apart by their order, which is the same on all ranks.
std::string next_job(const std::string& job) {
  static std::atomic<int> connects{0};
  return job + "/" + std::to_string(connects++);
}

// MKL chooses the kernels of its products, and those of its functions of vectors (exp, tanh, erf,
// …), in a process's first call of each family. Of two first calls at once, in two threads, one was
// seen to round otherwise than all later ones: in 1 of 200 processes for exp, tanh, erf, sin or log
// after a product, in none of 3000 after any one function of vectors.
void choose_kernels() {
  static const at::Tensor kChosen = at::ones({8, 8}).mm(at::ones({8, 8})).exp();
}

// The worlds of threads that connect again and again: each is made by whoever comes first, for all.
class ThreadsWorlds {
 public:
  explicit ThreadsWorlds(std::int64_t world)
      : world_(world), calls_(static_cast<std::size_t>(world)) {}

  Result<std::unique_ptr<comm::Transport>> take(const std::vector<comm::UnitSpec>& units,
                                                std::size_t rank) {
    const std::scoped_lock lock(mutex_);
    const std::size_t call = calls_.at(rank)++;
    Meeting& meeting = meetings_[call];
    if (meeting.taken == 0) {
      auto made = comm::make_threads_world(units, world_);
      if (made) meeting.transports = std::move(*made);
      if (!made) meeting.failure = std::move(made).error();
      meeting.units = comm::text_of(units);
    }
    const auto failure = meeting.failure;
    // Where this rank's is not taken, the others are told that it has left.
    auto transport = failure ? nullptr : std::exchange(meeting.transports.at(rank), nullptr);
    const bool same = comm::text_of(units) == meeting.units;
    if (++meeting.taken == world_) meetings_.erase(call);
    if (failure) return Failure(*failure);
    if (!same) {
      return user_error(
          "model and options", "other units on some ranks than on others",
          "the same parameters, stage, unit_bytes, order and grad_dtype on all ranks");
    }
    return transport;
  }

 private:
  struct Meeting {
    Transports transports;
    std::string units;             // of the first to come
    std::optional<Error> failure;  // of making them
    std::int64_t taken = 0;
  };

  std::mutex mutex_;
  std::int64_t world_;
  std::vector<std::size_t> calls_;           // by rank
  std::map<std::size_t, Meeting> meetings_;  // by call
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
  if (world > 1) choose_kernels();
  const auto shared = std::make_shared<ThreadsWorlds>(world);
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
