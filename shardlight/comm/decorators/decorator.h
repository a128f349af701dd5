// A transport around another: gives every call with its descriptor to one function of what is
// derived from it, which makes the call, or does not. So tracing, delays and faults are a few lines
// each and can be stacked. Owns what it is around; as many threads as that one allows.
#pragma once

#include <functional>
#include <memory>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

class Decorator : public Transport {
 public:
  explicit Decorator(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  Rank rank() const final { return inner_->rank(); }
  std::int64_t world() const final { return inner_->world(); }
  const std::vector<UnitSpec>& units() const final { return inner_->units(); }
  bool one_sided() const final { return inner_->one_sided(); }
  std::span<std::byte> shard(UnitId unit) final { return inner_->shard(unit); }
  std::span<std::byte> whole(UnitId unit) final { return inner_->whole(unit); }
  Status publish(UnitId unit, std::int64_t version) final;
  Status gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                Deadline deadline) final;
  Result<std::span<const std::byte>> view(UnitId unit, std::int64_t version,
                                          Deadline deadline) final;
  Status reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                Deadline deadline) final;
  Result<SumSpan> reduced(UnitId unit, std::int64_t round, Deadline deadline) final;
  Result<bool> gather_reduced(UnitId unit, std::int64_t round, const SumSpan& target,
                              Deadline deadline) final;
  Status release(UnitId unit, std::int64_t round) final;
  Status all_reduce(std::span<double> values, Combine combine, Deadline deadline) final;
  Status broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) final;
  Status barrier(Deadline deadline) final;
  Status send(std::span<const std::byte> bytes, Rank to, Deadline deadline) final;
  Status receive(std::span<std::byte> bytes, Rank from, Deadline deadline) final;
  TrafficCount traffic() const final { return inner_->traffic(); }
  std::string rank_table() const final { return inner_->rank_table(); }

 protected:
  using Make = std::function<Status()>;

  // Makes the call by `make`, or not at all. An error is the call's. A call that is not made, and
  // no error, seems done to its caller, with an empty result.
  virtual Status around(const Operation& operation, const Make& make) = 0;

  Transport& inner() { return *inner_; }

 private:
  Operation described(OperationKind kind, std::size_t bytes,
                      std::optional<Deadline> deadline) const;
  // A call about a unit.
  Operation described(OperationKind kind, UnitId unit, std::size_t bytes,
                      std::optional<Deadline> deadline) const;
  template <class Call>
  auto decorated(const Operation& operation, const Call& call) -> decltype(call());

  std::unique_ptr<Transport> inner_;
};

}  // namespace shardlight::comm
