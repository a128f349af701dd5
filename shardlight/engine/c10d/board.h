// What the ranks of a process group tell each other beside it, in their store: who they are, in
// which call they wait, that they leave, the first error of all. So whoever waits in vain can name
// the rank that is missing, which the group itself cannot. Asked only by calls that take long.
//
// Any thread. Throws nothing; of a store that fails or hangs, store_error() and blame() tell, the
// others see nothing. Each asks the store no longer than its call has left, and a little.
// Internal to engine/c10d.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/comm/shared/segment.h"
#include "shardlight/comm/transport.h"
#include "shardlight/engine/c10d/rendezvous.h"
#include "shardlight/engine/c10d/words.h"

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
  using StorePtr = Words::StorePtr;
  struct Place {
    std::string group;  // its name, as several groups may have one store
    Rank rank;
    std::int64_t world = 1;
  };

  // Meets the other ranks (rendezvous.h), which gives this board a name that no other has.
  // `objection` is why this rank cannot connect, which all others are told.
  static Result<std::unique_ptr<Board>> open(StorePtr store, const Place& place,
                                             comm::Deadline deadline, Seconds grace,
                                             const std::string& objection = "");

  // Leaves, if this rank has not yet: it has made no call then.
  ~Board();
  Board(const Board&) = delete;
  Board(Board&&) = delete;
  Board& operator=(const Board&) = delete;
  Board& operator=(Board&&) = delete;

  const std::string& name() const { return name_; }

  // This rank waits in the call; it does not any more.
  void waits(const RankCall& call);
  void waits_no_more(const RankCall& call);
  // What makes the wait vain: another rank's error; a rank that died or left before this call.
  std::optional<Cause> failure(const RankCall& call);
  std::optional<std::string> gone(const RankCall& call);
  // Why the call did not end: who is missing. `lost` is what the group says, if it broke. Waits for
  // the others' word, at most the grace.
  Cause blame(const RankCall& call, const std::string& lost);
  // The first error of all ranks, which is this one if there was none.
  Cause first(const Cause& cause);
  // This rank has made so many calls and makes no more. The last one takes the board down.
  void leave(std::int64_t calls);
  // A line a rank.
  std::string table();

  // What another rank puts for this one, once; nothing if it is not there within `patience`.
  // Whether the store has it.
  bool put(const std::string& name, const std::string& value, const RankCall& call);
  std::optional<std::string> take(const std::string& name, Seconds patience, const RankCall& call);
  std::string store_error() const { return words_->error(); }  // empty while it works

 private:
  struct Said {
    std::int64_t number = 0;
    std::string text;  // empty: it does not wait
  };

  Board(std::unique_ptr<Words> words, const Place& place, std::vector<Card> cards, Seconds grace);

  std::string on_board(const std::string& name) const { return name_ + "/" + name; }
  std::string of_rank(const char* name, std::int64_t rank) const;
  Seconds limit_of(const comm::Deadline& deadline) const;
  std::optional<std::string> get(const std::string& name, Seconds limit);

  // The rank's process is on this host and has ended.
  bool ended(std::int64_t rank) const;
  // How many calls the rank had made when it left.
  std::optional<std::int64_t> left_after(std::int64_t rank, Seconds limit);
  Said said(std::int64_t rank, Seconds limit);
  std::string missing(const RankCall& call);
  std::string absence(const RankCall& call, const std::string& lost);
  std::string died(std::int64_t rank) const;

  std::unique_ptr<Words> words_;  // of the group
  std::string name_;
  Rank rank_;
  std::int64_t world_;
  Seconds grace_;
  std::vector<Card> cards_;                  // by rank
  std::vector<comm::Descriptor> processes_;  // by rank; of this host's others

  std::mutex mutex_;
  std::string waits_in_;  // as it stands in the store
  bool left_ = false;
};

}  // namespace shardlight::engine
