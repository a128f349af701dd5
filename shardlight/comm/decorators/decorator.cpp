#include "shardlight/comm/decorators/decorator.h"

#include <type_traits>

#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/gradient.h"

namespace shardlight::comm {

Operation Decorator::described(OperationKind kind, std::size_t bytes,
                               std::optional<Deadline> deadline) const {
  return {.kind = kind,
          .bytes = Bytes(static_cast<std::int64_t>(bytes)),
          .lane = lane_of_this_thread(),
          .deadline = deadline};
}

Operation Decorator::described(OperationKind kind, UnitId unit, std::size_t bytes,
                               std::optional<Deadline> deadline) const {
  Operation operation = described(kind, bytes, deadline);
  // A unit that does not exist is refused by the inner transport.
  if (unit < units().size()) operation.unit = units()[unit].name;
  return operation;
}

template <class Call>
auto Decorator::decorated(const Operation& operation, const Call& call) -> decltype(call()) {
  using Returned = decltype(call());
  if constexpr (std::is_same_v<Returned, Status>) {
    return around(operation, std::cref(call));
  } else {
    std::optional<Returned> returned;
    const auto make = [&]() -> Status {
      returned = call();
      if (*returned) return {};
      return Failure(returned->error());
    };
    SHARDLIGHT_TRY_STATUS(around(operation, std::cref(make)));
    return returned ? std::move(*returned) : Returned(typename Returned::value_type{});
  }
}

Status Decorator::publish(UnitId unit, std::int64_t version) {
  const std::size_t bytes = unit < units().size() ? shard(unit).size() : 0;
  return decorated(described(OperationKind::kPublish, unit, bytes, std::nullopt),
                   [&] { return inner_->publish(unit, version); });
}

Status Decorator::gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                         Deadline deadline) {
  return decorated(described(OperationKind::kGather, unit, target.size(), deadline),
                   [&] { return inner_->gather(unit, version, target, deadline); });
}

Result<std::span<const std::byte>> Decorator::view(UnitId unit, std::int64_t version,
                                                   Deadline deadline) {
  return decorated(described(OperationKind::kGather, unit, 0, deadline),
                   [&] { return inner_->view(unit, version, deadline); });
}

Status Decorator::reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                         Deadline deadline) {
  const bool sound = unit < units().size() && check_gradient(units()[unit], gradient);
  const auto bytes = sound ? static_cast<std::size_t>(bytes_of(gradient).value()) : 0;
  return decorated(described(OperationKind::kReduce, unit, bytes, deadline),
                   [&] { return inner_->reduce(unit, round, fresh, gradient, deadline); });
}

Result<SumSpan> Decorator::reduced(UnitId unit, std::int64_t round, Deadline deadline) {
  return decorated(described(OperationKind::kReduced, unit, 0, deadline),
                   [&] { return inner_->reduced(unit, round, deadline); });
}

Result<bool> Decorator::gather_reduced(UnitId unit, std::int64_t round, const SumSpan& target,
                                       Deadline deadline) {
  return decorated(described(OperationKind::kGatherReduced, unit, target.bytes().size(), deadline),
                   [&] { return inner_->gather_reduced(unit, round, target, deadline); });
}

Status Decorator::release(UnitId unit, std::int64_t round) {
  return decorated(described(OperationKind::kRelease, unit, 0, std::nullopt),
                   [&] { return inner_->release(unit, round); });
}

Status Decorator::all_reduce(std::span<double> values, Combine combine, Deadline deadline) {
  Operation operation = described(OperationKind::kAllReduce, values.size_bytes(), deadline);
  operation.combine = name_of(combine);
  return decorated(operation, [&] { return inner_->all_reduce(values, combine, deadline); });
}

Status Decorator::broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) {
  Operation operation = described(OperationKind::kBroadcast, bytes.size(), deadline);
  operation.peer = root;
  return decorated(operation, [&] { return inner_->broadcast(bytes, root, deadline); });
}

Status Decorator::barrier(Deadline deadline) {
  return decorated(described(OperationKind::kBarrier, 0, deadline),
                   [&] { return inner_->barrier(deadline); });
}

Status Decorator::send(std::span<const std::byte> bytes, Rank to, Deadline deadline) {
  Operation operation = described(OperationKind::kSend, bytes.size(), deadline);
  operation.peer = to;
  return decorated(operation, [&] { return inner_->send(bytes, to, deadline); });
}

Status Decorator::receive(std::span<std::byte> bytes, Rank from, Deadline deadline) {
  Operation operation = described(OperationKind::kReceive, bytes.size(), deadline);
  operation.peer = from;
  return decorated(operation, [&] { return inner_->receive(bytes, from, deadline); });
}

}  // namespace shardlight::comm
