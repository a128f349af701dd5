#include "shardlight/comm/decorators/decorator.h"

#include "shardlight/comm/gradient.h"

namespace shardlight::comm {

Operation Decorator::operation(OperationKind kind, UnitId unit, std::size_t bytes) const {
  // A unit that does not exist is refused by the inner transport.
  const std::string name = unit < units().size() ? units()[unit].name : "";
  return {.kind = kind, .unit = name, .bytes = Bytes(static_cast<std::int64_t>(bytes))};
}

template <class Call>
auto Decorator::around(const Operation& operation, const Call& call) -> decltype(call()) {
  SHARDLIGHT_TRY_STATUS(before(operation));
  auto result = call();
  after(operation, result.has_value());
  return result;
}

Status Decorator::publish(UnitId unit, std::int64_t version) {
  const std::size_t bytes = unit < units().size() ? shard(unit).size() : 0;
  return around(operation(OperationKind::kPublish, unit, bytes),
                [&] { return inner_->publish(unit, version); });
}

Status Decorator::gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                         Deadline deadline) {
  return around(operation(OperationKind::kGather, unit, target.size()),
                [&] { return inner_->gather(unit, version, target, deadline); });
}

Result<std::span<const std::byte>> Decorator::view(UnitId unit, std::int64_t version,
                                                   Deadline deadline) {
  return around(operation(OperationKind::kGather, unit, 0),
                [&] { return inner_->view(unit, version, deadline); });
}

Status Decorator::reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                         Deadline deadline) {
  const bool sound = unit < units().size() && check_gradient(units()[unit], gradient);
  const auto bytes = sound ? static_cast<std::size_t>(bytes_of(gradient).value()) : 0;
  return around(operation(OperationKind::kReduce, unit, bytes),
                [&] { return inner_->reduce(unit, round, fresh, gradient, deadline); });
}

Result<std::span<float>> Decorator::reduced(UnitId unit, std::int64_t round, Deadline deadline) {
  return around(operation(OperationKind::kReduced, unit, 0),
                [&] { return inner_->reduced(unit, round, deadline); });
}

Result<bool> Decorator::gather_reduced(UnitId unit, std::int64_t round, std::span<float> target,
                                       Deadline deadline) {
  return around(operation(OperationKind::kGatherReduced, unit, target.size_bytes()),
                [&] { return inner_->gather_reduced(unit, round, target, deadline); });
}

Status Decorator::release(UnitId unit, std::int64_t round) {
  return around(operation(OperationKind::kRelease, unit, 0),
                [&] { return inner_->release(unit, round); });
}

Status Decorator::all_reduce(std::span<double> values, Combine combine, Deadline deadline) {
  return around(operation(OperationKind::kAllReduce, units().size(), values.size_bytes()),
                [&] { return inner_->all_reduce(values, combine, deadline); });
}

Status Decorator::broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) {
  return around(operation(OperationKind::kBroadcast, units().size(), bytes.size()),
                [&] { return inner_->broadcast(bytes, root, deadline); });
}

Status Decorator::barrier(Deadline deadline) {
  return around(operation(OperationKind::kBarrier, units().size(), 0),
                [&] { return inner_->barrier(deadline); });
}

Status Decorator::send(std::span<const std::byte> bytes, Rank to, Deadline deadline) {
  return around(operation(OperationKind::kSend, units().size(), bytes.size()),
                [&] { return inner_->send(bytes, to, deadline); });
}

Status Decorator::receive(std::span<std::byte> bytes, Rank from, Deadline deadline) {
  return around(operation(OperationKind::kReceive, units().size(), bytes.size()),
                [&] { return inner_->receive(bytes, from, deadline); });
}

}  // namespace shardlight::comm
