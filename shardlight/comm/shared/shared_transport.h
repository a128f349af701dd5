// The exchange between ranks that address the same memory: gathers are reads of the owners' slices,
// a reduce is a chain in which each rank adds to the sum when the ranks before it are done, chunk
// by chunk. One implementation for threads and for processes; they differ in the Segment and in how
// a dead rank is noticed (Peers).
//
// Threads: see transport.h. Owns its segment; shard(), view() and reduced() point into it.
#pragma once

#include <atomic>
#include <optional>

#include "shardlight/comm/shared/failure.h"
#include "shardlight/comm/shared/segment.h"
#include "shardlight/comm/shared/shared_layout.h"

namespace shardlight::comm {

// How to notice that a rank has died without a word.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual bool dead(Rank rank) = 0;
};

class SharedTransport final : public Transport {
 public:
  // `segment` has the layout's size and was zero before the first rank came; a shared pointer, as
  // threads share one mapping. `units` have passed check_units.
  SharedTransport(std::shared_ptr<Segment> segment, std::vector<UnitSpec> units, Rank rank,
                  std::int64_t world, std::unique_ptr<Peers> peers);
  // Tells the others that this rank has left: who waits for it gets an error.
  ~SharedTransport() override;

  Rank rank() const override { return rank_; }
  std::int64_t world() const override { return world_; }
  const std::vector<UnitSpec>& units() const override { return units_; }

  std::span<std::byte> shard(UnitId unit) override;
  Status publish(UnitId unit, std::int64_t version) override;
  std::span<std::byte> whole(UnitId unit) override;
  Status gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                Deadline deadline) override;
  Result<std::span<const std::byte>> view(UnitId unit, std::int64_t version,
                                          Deadline deadline) override;
  Status reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                Deadline deadline) override;
  Result<SumSpan> reduced(UnitId unit, std::int64_t round, Deadline deadline) override;
  Result<bool> gather_reduced(UnitId unit, std::int64_t round, const SumSpan& target,
                              Deadline deadline) override;
  Status release(UnitId unit, std::int64_t round) override;
  Status all_reduce(std::span<double> values, Combine combine, Deadline deadline) override;
  Status broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) override;
  Status barrier(Deadline deadline) override;
  Status send(std::span<const std::byte> bytes, Rank to, Deadline deadline) override;
  Status receive(std::span<std::byte> bytes, Rank from, Deadline deadline) override;
  TrafficCount traffic() const override;
  std::string rank_table() const override;

  // Faults in this rank's memory of units and sums, so that the pages lie near it and nobody pays
  // for them later.
  void populate_own();
  // Until all ranks have made their transports; the last part of connecting.
  Status meet(Deadline deadline);

 private:
  class Call;
  class Watch;
  struct Chunk;

  void populate(std::span<const std::byte> memory) const;
  // What it reads of the others' memory, for the page table of this process.
  void populate_others() const;

  template <class T>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(segment_->data() + offset);
  }
  Control& control() const { return *at<Control>(0); }
  RankRecord& record(Rank rank) const { return control().ranks[rank.value()]; }
  Word& word(std::int64_t offset, std::int64_t index) const { return at<Word>(offset)[index]; }

  // The error of an earlier failure, of whichever rank.
  Status check_alive(const Operation& operation) const;
  Status check_sum(UnitId unit, std::int64_t round) const;
  Operation operation(OperationKind kind, UnitId unit, Bytes bytes) const;
  // A unit's elements of `owner`, where `owner` writes them.
  std::span<std::byte> slice(UnitId unit, Rank owner) const;
  Mailbox& mailbox(Rank from, Rank to) const {
    return *at<Mailbox>(layout_.mailbox(from.value(), to.value()));
  }
  // Whether `rank` has yet to enter the barrier that `waiting` is at.
  bool missing_at_barrier(Rank rank, Rank waiting) const;
  std::optional<Rank> first_missing_at_barrier(Rank waiting) const;
  // Whom `rank` waits for, if it does; and the end of that chain: who keeps all of them waiting.
  std::optional<Rank> awaited_by(Rank rank) const;
  Rank culprit_behind(Rank awaited) const;
  // "in gather of h.0 for 1.2 s, waiting for rank 3".
  std::string activity(Rank rank) const;

  // `whom`: the rank that moves the word; nobody in particular at a barrier.
  Status await(Word& word, std::uint32_t wanted, std::optional<Rank> whom, Call& call);
  // Tells all ranks, unless an earlier failure has; the error of whichever came first.
  Error fail(const Call& call, Rank culprit, FailureReason reason);
  Error error_of(const Operation& operation, std::uint64_t failure) const;
  std::string cause_text(const RankFailure& failure) const;
  Status enter_barrier(Call& call);
  Status await_slice(UnitId unit, std::int64_t version, Rank owner, Call& call);
  Status await_releases(UnitId unit, std::int64_t round, Call& call);
  // Until the sum of elements [begin, begin + elements) is complete; whether anybody had a
  // gradient.
  Result<bool> await_sum(UnitId unit, std::int64_t round, std::int64_t begin, std::int64_t elements,
                         Call& call);
  // Of one of a unit's buffers of sums, `elements` of the unit from `begin` on.
  SumSpan sum(UnitId unit, int buffer, std::int64_t begin, std::int64_t elements) const;
  Status reduce_chunk(const Chunk& chunk, Call& call);
  void add(const Chunk& chunk, const ReduceStep& step);

  std::shared_ptr<Segment> segment_;
  std::vector<UnitSpec> units_;
  Rank rank_;
  std::int64_t world_;
  std::unique_ptr<Peers> peers_;
  SharedLayout layout_;
  int spins_;
  std::vector<std::vector<ReduceStep>> steps_;  // by unit
  std::vector<std::int64_t> fresh_round_;  // by unit: the round in which its sum last started anew
  std::uint32_t all_reduces_ = 0;
  std::uint32_t broadcast_chunks_ = 0;
  std::atomic<std::int64_t> bytes_gathered_{0};
  std::atomic<std::int64_t> bytes_reduced_{0};
};

}  // namespace shardlight::comm
