// The exchange over a process group's collectives: each call begins with the ranks' headers
// (call_header.h), then the data goes from owners to all (gather) or from all to owners, who add it
// up in the unit's order (reduce). Messages go by the store and by the group's own. Internal to
// engine/c10d.
//
// Threads: collective calls one at a time, in the same order on all ranks; messages as in
// comm/transport.h. Owns its shards and sums.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "shardlight/comm/shared/segment.h"
#include "shardlight/comm/slice_sum.h"
#include "shardlight/engine/c10d/c10d_world.h"
#include "shardlight/engine/c10d/call_header.h"
#include "shardlight/engine/c10d/process_group.h"

namespace shardlight::engine {

class C10dTransport final : public comm::Transport {
 public:
  // `units` have passed check_units.
  static Result<std::unique_ptr<C10dTransport>> make(std::unique_ptr<Board> board,
                                                     ProcessGroup group,
                                                     std::vector<comm::UnitSpec> units);
  // Tells the others that this rank has left: who waits for it gets an error.
  ~C10dTransport() override;
  C10dTransport(const C10dTransport&) = delete;
  C10dTransport(C10dTransport&&) = delete;
  C10dTransport& operator=(const C10dTransport&) = delete;
  C10dTransport& operator=(C10dTransport&&) = delete;

  // Compares the ranks' units; the last part of connecting.
  Status meet(comm::Deadline deadline);

  Rank rank() const override { return group_.rank(); }
  std::int64_t world() const override { return group_.world(); }
  const std::vector<comm::UnitSpec>& units() const override { return units_; }
  bool one_sided() const override { return false; }

  std::span<std::byte> shard(comm::UnitId unit) override;
  Status publish(comm::UnitId unit, std::int64_t version) override;
  std::span<std::byte> whole(comm::UnitId unit) override;
  Status gather(comm::UnitId unit, std::int64_t version, std::span<std::byte> target,
                comm::Deadline deadline) override;
  Result<std::span<const std::byte>> view(comm::UnitId unit, std::int64_t version,
                                          comm::Deadline deadline) override;
  Status reduce(comm::UnitId unit, std::int64_t round, bool fresh, comm::Gradient gradient,
                comm::Deadline deadline) override;
  Result<comm::SumSpan> reduced(comm::UnitId unit, std::int64_t round,
                                comm::Deadline deadline) override;
  Result<bool> gather_reduced(comm::UnitId unit, std::int64_t round, const comm::SumSpan& target,
                              comm::Deadline deadline) override;
  Status release(comm::UnitId unit, std::int64_t round) override;
  Status all_reduce(std::span<double> values, comm::Combine combine,
                    comm::Deadline deadline) override;
  Status broadcast(std::span<std::byte> bytes, Rank root, comm::Deadline deadline) override;
  Status barrier(comm::Deadline deadline) override;
  Status send(std::span<const std::byte> bytes, Rank to, comm::Deadline deadline) override;
  Status receive(std::span<std::byte> bytes, Rank from, comm::Deadline deadline) override;

  comm::TrafficCount traffic() const override;
  std::string rank_table() const override;

 private:
  struct Owned {  // of a unit, what this rank keeps
    std::int64_t memory = 0;
    std::int64_t published = 0;
    std::int64_t rounds = 0;    // of its sum that are complete
    std::int64_t released = 0;  // rounds whose sum this rank has released
    bool filled = false;        // whether a rank has had a gradient since the sum was fresh
    std::optional<comm::SliceSum> sum;
  };
  // Of a collective call, while it runs.
  struct Collective {
    CallHeader header;
    comm::Operation operation;
    RankCall call;
    std::vector<CallHeader> headers = {};                 // by rank
    std::vector<std::vector<std::int64_t>> numbers = {};  // by rank
  };
  using Parts = std::vector<std::vector<comm::GradientPart>>;

  C10dTransport(std::unique_ptr<Board> board, ProcessGroup group, std::vector<comm::UnitSpec> units,
                comm::Segment memory);

  Status check_sum(comm::UnitId unit, std::int64_t round) const;
  comm::Operation operation(comm::OperationKind kind, comm::UnitId unit, Bytes bytes) const;

  Status check_alive(const comm::Operation& operation) const;
  Error error_of(const comm::Operation& operation, const Cause& cause) const;
  // Ends the communicator, unless it is over; the error of what ended it.
  Failure fail(const comm::Operation& operation, const Cause& cause);
  Status settled(const comm::Operation& operation, const ProcessGroup::Outcome& outcome);

  static Collective collective(comm::Operation operation, comm::Deadline deadline,
                               CallHeader header);
  // Compares the ranks' headers, and gives all what numbers each rank has besides.
  Status begin(Collective& call, std::span<const std::int64_t> numbers = {});
  Status share_numbers(Collective& call, std::span<const std::int64_t> numbers);
  // All ranks' slices of a unit of that many bytes an element.
  Status share_slices(const Collective& call, comm::UnitId unit, std::span<const std::byte> own,
                      std::span<std::byte> target, std::int64_t each);

  Status exchange_gradients(const Collective& call, comm::UnitId unit, const Parts& parts,
                            const comm::Gradient& gradient, std::int64_t chunk);
  void add_gradients(const Collective& call, comm::UnitId unit, const Parts& parts,
                     const comm::Gradient& gradient, std::int64_t chunk);

  // What another rank puts on the board for this one.
  Result<std::string> await_word(const comm::Operation& operation, const RankCall& call,
                                 const std::string& name);
  Status put_word(const comm::Operation& operation, const RankCall& call, const std::string& name,
                  const std::string& word);

  std::unique_ptr<Board> board_;
  ProcessGroup group_;
  std::vector<comm::UnitSpec> units_;
  comm::Segment memory_;
  std::int64_t chunk_elements_;
  std::vector<Owned> owned_;  // by unit

  std::mutex calls_mutex_;  // held by a collective call
  std::int64_t calls_ = 0;
  std::uint64_t history_ = 0;

  mutable std::mutex failure_mutex_;
  std::optional<Cause> failure_;

  std::vector<std::int64_t> sent_, received_;  // messages, by rank
  std::atomic<std::int64_t> bytes_gathered_{0};
  std::atomic<std::int64_t> bytes_reduced_{0};
};

}  // namespace shardlight::engine
