// The transport over MPI as its callers see it: checks what they give, copies slices of ranks of
// the own host itself, and for all else hands the call to the communication thread and sleeps until
// it has ended. Threads: see transport.h. Internal to comm/mpi.
#pragma once

#include "shardlight/comm/mpi/communication_thread.h"

namespace shardlight::comm {

class MpiTransport final : public Transport {
 public:
  MpiTransport(CommunicationThread& thread, std::shared_ptr<Exchange> exchange);
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport(MpiTransport&&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  MpiTransport& operator=(MpiTransport&&) = delete;
  // Tells the others that this rank has left. What it published can be gathered until they have
  // left too.
  ~MpiTransport() override;

  // Meets the others, and maps the memory of those of this host if `maps_host`.
  Status connect(Deadline deadline, bool maps_host);

  Rank rank() const override { return exchange_->rank(); }
  std::int64_t world() const override { return exchange_->world(); }
  const std::vector<UnitSpec>& units() const override { return exchange_->units(); }

  std::span<std::byte> shard(UnitId unit) override { return exchange_->memory().shard(unit); }
  Status publish(UnitId unit, std::int64_t version) override;
  std::span<std::byte> whole(UnitId unit) override { return exchange_->memory().whole(unit); }
  Status gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                Deadline deadline) override;
  // Empty: each rank's slices are in a mapping of their own.
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

  TrafficCount traffic() const override { return exchange_->traffic(); }
  std::string rank_table() const override;

  // What this process has handed to MPI so far, by all its transports; headers and heartbeats too.
  Bytes bytes_sent() const { return thread_.bytes_sent(); }

 private:
  // The owners of slices of a unit, by how a gather reads them.
  struct Owners {
    std::vector<Rank> there;    // in memory of this host, published
    std::vector<Rank> awaited;  // in memory of this host, not published yet
    std::vector<Rank> by_message;
  };
  void map_host();
  Owners owners(UnitId unit, std::int64_t version) const;
  std::int64_t version(UnitId unit, Rank owner) const;
  bool come_soon(UnitId unit, std::int64_t version, const std::vector<Rank>& awaited,
                 const Deadline& deadline) const;
  void copy_slices(UnitId unit, std::int64_t version, const std::vector<Rank>& owners,
                   std::span<std::byte> target) const;
  Status check_sum(UnitId unit, std::int64_t round) const;
  Operation operation(OperationKind kind, UnitId unit, Bytes bytes) const;
  // Starts it on the communication thread and waits for its end.
  Status done(Call& call, const std::function<void()>& start) const;

  CommunicationThread& thread_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<PeerMemories> peers_;
  std::vector<std::atomic<std::int64_t>> released_;  // by unit: rounds
};

}  // namespace shardlight::comm
