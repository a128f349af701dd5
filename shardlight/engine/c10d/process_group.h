// A torch.distributed process group as far as the exchange needs it: every rank gives each other
// one bytes at once, and a message from one to another. All bytes go through memory of its own, so
// a call that gives up leaves nothing behind that could write into its caller's. CPU tensors.
//
// One thread at a time, but for messages, of which two threads may have different ones. A wait ends
// at its deadline, or soon after another rank has failed, died or left. Internal to engine/c10d.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "shardlight/engine/c10d/board.h"

namespace shardlight::engine {

// Bytes to and from each rank; none to itself.
struct Sizes {
  std::vector<std::int64_t> out;
  std::vector<std::int64_t> in;
};

class ProcessGroup {
 public:
  using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
  // Nothing went wrong, or why the communicator is over.
  using Outcome = std::optional<Cause>;

  // A user error of the field `group` where it has no backend for CPU tensors.
  static Status check(const GroupPtr& group);
  // Of a group that has passed.
  ProcessGroup(const GroupPtr& group, Board& board, Bytes staging);

  Rank rank() const { return rank_; }
  std::int64_t world() const { return world_; }
  // What a rank may give each other one at once.
  std::int64_t most_bytes() const { return most_; }
  Bytes staging() const { return bytes_; }

  // Where what goes to each rank is written before, one after another by rank, and where it has
  // come; as many as most_bytes() each.
  std::byte* out() const { return staging_->out.data(); }
  const std::byte* in() const { return staging_->in.data(); }
  Outcome exchange(const Sizes& sizes, const RankCall& call);

  // Gives `own` to every other rank, and has each rank's in targets[rank], whose sizes all ranks
  // know; targets[rank()] is as large as `own` and left alone.
  Outcome share(std::span<const std::byte> own, const std::vector<std::span<std::byte>>& targets,
                const RankCall& call);

  // Once both sides are known to be there.
  Outcome send(std::span<const std::byte> bytes, Rank to, const RankCall& call);
  Outcome receive(std::span<std::byte> bytes, Rank from, const RankCall& call);
  // Makes whatever waits in the group fail, on this rank and, where the backend can, on all.
  void abort();

 private:
  struct Staging {
    std::vector<std::byte> out;
    std::vector<std::byte> in;
  };
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  Outcome wait(const std::function<WorkPtr()>& start, const RankCall& call, bool may_look);

  BackendPtr backend_;
  Board* board_;
  Rank rank_;
  std::int64_t world_;
  Bytes bytes_;
  std::int64_t most_;
  std::shared_ptr<Staging> staging_;
};

}  // namespace shardlight::engine
