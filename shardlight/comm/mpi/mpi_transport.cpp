#include "shardlight/comm/mpi/mpi_transport.h"

#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/copy.h"
#include "shardlight/comm/gradient.h"

namespace shardlight::comm {
namespace {

Bytes size_of(std::size_t bytes) { return Bytes(static_cast<std::int64_t>(bytes)); }

std::uint32_t shown(UnitId unit) { return static_cast<std::uint32_t>(unit + 1); }

}  // namespace

MpiTransport::MpiTransport(CommunicationThread& thread, std::shared_ptr<Exchange> exchange)
    : thread_(thread),
      exchange_(std::move(exchange)),
      peers_(std::make_shared<PeerMemories>(exchange_->world())),
      released_(exchange_->units().size()) {}

MpiTransport::~MpiTransport() {
  thread_.run([this] { exchange_->leave(); });
}

Status MpiTransport::done(Call& call, const std::function<void()>& start) const {
  SHARDLIGHT_TRY_STATUS(exchange_->check_alive(call.operation()));
  thread_.post(start);
  return call.wait();
}

Status MpiTransport::check_sum(UnitId unit, std::int64_t round) const {
  SHARDLIGHT_TRY_STATUS(check_reduces(units(), unit));
  return check_not_released(round, released_[unit] > round);
}

Operation MpiTransport::operation(OperationKind kind, UnitId unit, Bytes bytes) const {
  return {.kind = kind, .unit = units()[unit].name, .bytes = bytes};
}

Status MpiTransport::connect(Deadline deadline, bool maps_host) {
  Call call({.kind = OperationKind::kConnect}, 0, deadline);
  SHARDLIGHT_TRY_STATUS(done(call, [&] { exchange_->connect(call); }));
  if (maps_host) map_host();
  return {};
}

Status MpiTransport::publish(UnitId unit, std::int64_t version) {
  SHARDLIGHT_TRY_STATUS(check_unit(units(), unit));
  SHARDLIGHT_TRY_STATUS(exchange_->check_alive(operation(OperationKind::kPublish, unit, Bytes(0))));
  exchange_->memory().publish(unit, version);
  thread_.post([exchange = exchange_, unit] { exchange->published(unit); });
  return {};
}

Result<std::span<const std::byte>> MpiTransport::view(UnitId unit, std::int64_t /*version*/,
                                                      Deadline /*deadline*/) {
  SHARDLIGHT_TRY_STATUS(check_unit(units(), unit));
  SHARDLIGHT_TRY_STATUS(
      exchange_->check_alive(operation(OperationKind::kGather, unit, units()[unit].bytes())));
  return std::span<const std::byte>();
}

Status MpiTransport::reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                            Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_reduces(units(), unit));
  SHARDLIGHT_TRY_STATUS(check_gradient(units()[unit], gradient));
  Call call(operation(OperationKind::kReduce, unit, bytes_of(gradient)), shown(unit), deadline);
  return done(call, [&] { exchange_->reduce(call, unit, round, fresh, gradient); });
}

Result<SumSpan> MpiTransport::reduced(UnitId unit, std::int64_t round, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_sum(unit, round));
  const Count own = units()[unit].slices[rank().value()];
  Call call(operation(OperationKind::kReduced, unit, units()[unit].sum_bytes(own)), shown(unit),
            deadline);
  SHARDLIGHT_TRY_STATUS(exchange_->check_alive(call.operation()));
  if (own == Count(0)) return SumSpan();
  SHARDLIGHT_TRY_STATUS(done(call, [&] { exchange_->await_sum(call, unit, round); }));
  return call.empty ? SumSpan() : exchange_->own_sum(unit);
}

Result<bool> MpiTransport::gather_reduced(UnitId unit, std::int64_t round, const SumSpan& target,
                                          Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_sum(unit, round));
  const UnitSpec& spec = units()[unit];
  SHARDLIGHT_TRY_STATUS(check_sum_target(spec, target));
  Call call(operation(OperationKind::kGatherReduced, unit, size_of(target.bytes().size())),
            shown(unit), deadline);
  SHARDLIGHT_TRY_STATUS(done(call, [&] { exchange_->gather_sum(call, unit, round, target); }));
  if (call.empty) return false;
  if (spec.slices[rank().value()] > Count(0)) {
    const SumSpan own = exchange_->own_sum(unit);
    copy_bytes(target.part(spec.slice_begin(rank()), own.elements()).data(), own.data(),
               spec.sum_bytes(own.elements()).value());
  }
  return true;
}

Status MpiTransport::release(UnitId unit, std::int64_t round) {
  SHARDLIGHT_TRY_STATUS(check_reduces(units(), unit));
  SHARDLIGHT_TRY_STATUS(exchange_->check_alive(operation(OperationKind::kRelease, unit, Bytes(0))));
  released_[unit] = round + 1;
  thread_.post([exchange = exchange_, unit, round] { exchange->release(unit, round); });
  return {};
}

Status MpiTransport::all_reduce(std::span<double> values, Combine combine, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_all_reduce(values));
  Call call({.kind = OperationKind::kAllReduce, .bytes = size_of(values.size_bytes())}, 0,
            deadline);
  return done(call, [&] { exchange_->all_reduce(call, values, combine); });
}

Status MpiTransport::barrier(Deadline deadline) {
  Call call({.kind = OperationKind::kBarrier}, 0, deadline);
  return done(call, [&] { exchange_->all_reduce(call, {}, Combine::kSum); });
}

Status MpiTransport::broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_rank("root", root, world()));
  Call call({.kind = OperationKind::kBroadcast, .bytes = size_of(bytes.size())}, 0, deadline);
  return done(call, [&] { exchange_->broadcast(call, bytes, root); });
}

Status MpiTransport::send(std::span<const std::byte> bytes, Rank to, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_peer("to", to, rank(), world()));
  Call call({.kind = OperationKind::kSend, .bytes = size_of(bytes.size())}, 0, deadline);
  return done(call, [&] { exchange_->send(call, bytes, to); });
}

Status MpiTransport::receive(std::span<std::byte> bytes, Rank from, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_peer("from", from, rank(), world()));
  Call call({.kind = OperationKind::kReceive, .bytes = size_of(bytes.size())}, 0, deadline);
  return done(call, [&] { exchange_->receive(call, bytes, from); });
}

std::string MpiTransport::rank_table() const {
  std::string table;
  thread_.run([&] { table = exchange_->rank_table(); });
  return table;
}

}  // namespace shardlight::comm
