#include "shardlight/comm/shared/shared_transport.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/copy.h"
#include "shardlight/comm/shared/shared_call.h"

namespace shardlight::comm {
namespace {

// Where every rank has a core, whoever is waited for is running: a short pause is cheapest.
int spins_for(std::int64_t world) {
  constexpr int kSpins = 200;
  return world <= static_cast<std::int64_t>(std::thread::hardware_concurrency()) ? kSpins : 0;
}

}  // namespace

SharedTransport::SharedTransport(std::shared_ptr<Segment> segment, std::vector<UnitSpec> units,
                                 Rank rank, std::int64_t world, std::unique_ptr<Peers> peers)
    : segment_(std::move(segment)),
      units_(std::move(units)),
      rank_(rank),
      world_(world),
      peers_(std::move(peers)),
      layout_(units_, world),
      spins_(spins_for(world)),
      fresh_round_(units_.size(), 0) {
  for (const UnitSpec& unit : units_) steps_.push_back(reduce_steps(unit.order, world, rank));
  record(rank_).state.store(static_cast<std::uint32_t>(RankState::kActive),
                            std::memory_order_release);
}

SharedTransport::~SharedTransport() {
  record(rank_).state.store(static_cast<std::uint32_t>(RankState::kLeft),
                            std::memory_order_release);
}

Operation SharedTransport::operation(OperationKind kind, UnitId unit, Bytes bytes) const {
  return {.kind = kind, .unit = units_[unit].name, .bytes = bytes};
}

std::span<std::byte> SharedTransport::slice(UnitId unit, Rank owner) const {
  const UnitSpec& spec = units_[unit];
  const UnitPlaces& places = layout_.places(unit);
  const std::int64_t each = layout::bytes_per_element(spec.dtype).value();
  const std::int64_t begin = spec.slice_begin(owner).value() * each;
  return {at<std::byte>(places.shards + places.stride * owner.value() + begin),
          static_cast<std::size_t>(spec.slices[owner.value()].value() * each)};
}

std::span<std::byte> SharedTransport::shard(UnitId unit) { return slice(unit, rank_); }

std::span<std::byte> SharedTransport::whole(UnitId unit) {
  if (unit >= units_.size() || !units_[unit].whole) return {};
  const UnitPlaces& places = layout_.places(unit);
  return {at<std::byte>(places.shards + places.stride * rank_.value()),
          static_cast<std::size_t>(units_[unit].bytes().value())};
}

Status SharedTransport::publish(UnitId unit, std::int64_t version) {
  SHARDLIGHT_TRY_STATUS(check_unit(units_, unit));
  SHARDLIGHT_TRY_STATUS(check_alive(operation(OperationKind::kPublish, unit, Bytes(0))));
  // They only grow.
  Word& published = word(layout_.places(unit).versions, rank_.value());
  const auto wanted = static_cast<std::uint32_t>(version);
  if (!published.reached(wanted)) published.store(wanted);
  return {};
}

Status SharedTransport::await_slice(UnitId unit, std::int64_t version, Rank owner, Call& call) {
  if (units_[unit].slices[owner.value()] == Count(0)) return {};
  return await(word(layout_.places(unit).versions, owner.value()),
               static_cast<std::uint32_t>(version), owner, call);
}

Status SharedTransport::gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                               Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_unit(units_, unit));
  const UnitSpec& spec = units_[unit];
  SHARDLIGHT_TRY_STATUS(check_target(spec, target));
  Call call(record(rank_), operation(OperationKind::kGather, unit, spec.bytes()),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  const bool in_place = spec.whole && target.data() == whole(unit).data();
  const std::int64_t each = layout::bytes_per_element(spec.dtype).value();
  // Each rank begins with its own slice, so that they do not all read the same one.
  for (std::int64_t i = 0; i < world_; ++i) {
    const Rank owner((rank_.value() + i) % world_);
    SHARDLIGHT_TRY_STATUS(await_slice(unit, version, owner, call));
    if (owner == rank_ && in_place) continue;
    const std::span<const std::byte> from = slice(unit, owner);
    const auto bytes = static_cast<std::int64_t>(from.size());
    copy_of_unit(target.data() + spec.slice_begin(owner).value() * each, from.data(), bytes,
                 spec.bytes().value());
    if (owner != rank_) bytes_gathered_ += bytes;
  }
  return {};
}

Result<std::span<const std::byte>> SharedTransport::view(UnitId unit, std::int64_t version,
                                                         Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_unit(units_, unit));
  // Its slices stand in as many places as there are ranks.
  if (units_[unit].whole) return std::span<const std::byte>();
  Call call(record(rank_), operation(OperationKind::kGather, unit, units_[unit].bytes()),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  for (std::int64_t owner = 0; owner < world_; ++owner) {
    SHARDLIGHT_TRY_STATUS(await_slice(unit, version, Rank(owner), call));
  }
  return std::span<const std::byte>(at<std::byte>(layout_.places(unit).shards),
                                    static_cast<std::size_t>(units_[unit].bytes().value()));
}

Status SharedTransport::enter_barrier(Call& call) {
  const std::uint32_t generation = control().barrier_generation.load();
  record(rank_).arrivals.add(1);
  const std::uint32_t arrived = control().barrier_arrived.add(1);
  if (arrived == static_cast<std::uint32_t>(world_)) {
    // Nobody arrives again before the generation has moved on.
    control().barrier_arrived.store(0);
    control().barrier_generation.store(generation + 1);
    return {};
  }
  return await(control().barrier_generation, generation + 1, std::nullopt, call);
}

Status SharedTransport::barrier(Deadline deadline) {
  Call call(record(rank_), {.kind = OperationKind::kBarrier}, 0, deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  return enter_barrier(call);
}

Status SharedTransport::all_reduce(std::span<double> values, Combine combine, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_all_reduce(values));
  Call call(record(rank_),
            {.kind = OperationKind::kAllReduce,
             .bytes = Bytes(static_cast<std::int64_t>(values.size_bytes()))},
            0, deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  // Two sets in turn: whoever writes a set again has passed a barrier that all its readers entered
  // after they had read it.
  auto& contributions = control().all_reduce[all_reduces_++ % 2];
  std::copy(values.begin(), values.end(), contributions[rank_.value()].begin());
  SHARDLIGHT_TRY_STATUS(enter_barrier(call));
  std::copy_n(contributions[0].begin(), values.size(), values.begin());
  for (std::int64_t other = 1; other < world_; ++other) {
    combine_into(values, contributions[other], combine);
  }
  return {};
}

Status SharedTransport::broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_rank("root", root, world_));
  Call call(
      record(rank_),
      {.kind = OperationKind::kBroadcast, .bytes = Bytes(static_cast<std::int64_t>(bytes.size()))},
      0, deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  for (std::size_t begin = 0; begin < bytes.size(); begin += kBroadcastBytes) {
    const std::size_t size = std::min<std::size_t>(kBroadcastBytes, bytes.size() - begin);
    std::byte* buffer = control().broadcast[broadcast_chunks_++ % 2].data();  // in turn, as above
    if (rank_ == root) std::memcpy(buffer, bytes.data() + begin, size);
    SHARDLIGHT_TRY_STATUS(enter_barrier(call));
    if (rank_ != root) std::memcpy(bytes.data() + begin, buffer, size);
  }
  return {};
}

TrafficCount SharedTransport::traffic() const {
  return {.gathered = Bytes(bytes_gathered_.load()), .reduced = Bytes(bytes_reduced_.load())};
}

void SharedTransport::populate(std::span<const std::byte> memory) const {
  segment_->populate(Bytes(memory.data() - segment_->data()),
                     Bytes(static_cast<std::int64_t>(memory.size())));
}

void SharedTransport::populate_own() {
  for (UnitId unit = 0; unit < units_.size(); ++unit) {
    const UnitSpec& spec = units_[unit];
    const UnitPlaces& places = layout_.places(unit);
    populate(spec.whole ? whole(unit) : shard(unit));
    for (int buffer = 0; buffer < places.buffers; ++buffer) {
      const Count begin = spec.elements() * buffer + spec.slice_begin(rank_);
      segment_->populate(Bytes(places.sums) + spec.sum_bytes(begin),
                         spec.sum_bytes(spec.slices[rank_.value()]));
    }
  }
}

void SharedTransport::populate_others() const {
  for (UnitId unit = 0; unit < units_.size(); ++unit) {
    const UnitPlaces& places = layout_.places(unit);
    for (std::int64_t owner = 0; owner < world_; ++owner) populate(slice(unit, Rank(owner)));
    segment_->populate(Bytes(places.sums),
                       units_[unit].sum_bytes(units_[unit].elements()) * places.buffers);
  }
}

Status SharedTransport::meet(Deadline deadline) {
  populate_own();
  Call call(record(rank_), {.kind = OperationKind::kConnect}, 0, deadline);
  SHARDLIGHT_TRY_STATUS(enter_barrier(call));
  populate_others();
  return {};
}

}  // namespace shardlight::comm
