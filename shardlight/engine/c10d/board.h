// What the ranks of a process group tell each other beside it, in their store: who they are, in
// which call they wait, that they leave, the first error of all. So whoever waits in vain can name
// the rank that is missing, which the group itself cannot. Asked only by calls that take long.
//
// Any thread. Throws nothing; a store that fails is found out by blame(), the others see nothing.
// Internal to engine/c10d.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/comm/shared/segment.h"
#include "shardlight/comm/transport.h"

namespace shardlight::engine {

// Why a communicator is over, and which rank found that in which call.
struct Cause {
  Rank by;
  std::string call;  // "gather of h.0"
  std::string what;
};

// A call of this rank that waits: for all others, as their how many-th collective, or for a peer.
struct RankCall {
  std::int64_t number = 0;  // 0: a message
  std::string text;         // "gather of h.0"
  comm::Deadline deadline;
  std::optional<Rank> peer = std::nullopt;
};

class Board {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;

  // Opens the next board of this rank and waits until all ranks have opened theirs. Environment
  // errors of the operation connect.
  static Result<std::unique_ptr<Board>> open(StorePtr store, Rank rank, std::int64_t world,
                                             comm::Deadline deadline, Seconds grace);

  // This rank waits in the call; it does not any more.
  void waits(const RankCall& call);
  void waits_no_more();
  // What makes the wait vain: another rank's error; a rank that died or left before this call.
  std::optional<Cause> failure();
  std::optional<std::string> gone(const RankCall& call);
  // Why the call did not end: who is missing. `lost` is what the group says, if it broke. Waits for
  // the others' word, at most the grace.
  Cause blame(const RankCall& call, const std::string& lost);
  // The first error of all ranks, which is this one if there was none.
  Cause first(const Cause& cause);
  // This rank has made so many calls and makes no more.
  void leave(std::int64_t calls);
  // A line a rank.
  std::string table();

  // What another rank puts for this one, once; nothing if it is not there within `patience`.
  void put(const std::string& name, const std::string& value);
  std::optional<std::string> take(const std::string& name, Seconds patience);

 private:
  struct Said {
    std::int64_t number = 0;
    std::string text;  // empty: it does not wait
  };

  Board(StorePtr store, Rank rank, std::int64_t world, std::string prefix, Seconds grace)
      : store_(std::move(store)),
        rank_(rank),
        world_(world),
        prefix_(std::move(prefix)),
        grace_(grace) {}

  std::string of_rank(const char* name, std::int64_t rank) const;
  // Whether the store did it.
  bool ask(const std::function<void(c10d::Store&)>& question);
  // Until all of them are there, at most `patience`.
  void await(const std::vector<std::string>& keys, Seconds patience);
  void set(const std::string& name, const std::string& value);
  std::optional<std::string> get(const std::string& name);
  std::string store_error() const;
  Status meet(comm::Deadline deadline);

  // The rank's process is on this host and has ended.
  bool ended(std::int64_t rank) const;
  // How many calls the rank had made when it left.
  std::optional<std::int64_t> left_after(std::int64_t rank);
  Said said(std::int64_t rank);
  std::string missing(const RankCall& call);
  std::string absence(const RankCall& call, const std::string& lost);

  StorePtr store_;
  Rank rank_;
  std::int64_t world_;
  std::string prefix_;
  Seconds grace_;
  std::vector<std::string> who_;             // by rank
  std::vector<comm::Descriptor> processes_;  // by rank; of this host's others

  mutable std::mutex mutex_;
  std::string store_error_;  // empty while it works
  std::string waits_in_;     // as it stands in the store
};

}  // namespace shardlight::engine
