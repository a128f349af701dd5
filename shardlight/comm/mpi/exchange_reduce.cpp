// Reducing: contributors announce which elements they have, owners ask for them chunk by chunk, as
// far as their memory goes, and add them in the unit's order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "shardlight/comm/gradient_parts.h"
#include "shardlight/comm/mpi/exchange.h"

namespace shardlight::comm {
namespace {

constexpr int kAddsAtOnce = 4;

}  // namespace

void Exchange::reduce(Call& call, UnitId unit, std::int64_t round, bool fresh,
                      const Gradient& gradient) {
  if (!begin(call)) return;
  const UnitSpec& spec = units_[unit];
  Giving giving{.call = &call, .round = round, .dtype = gradient.dtype};
  giving.parts.assign(gradient.parts.begin(), gradient.parts.end());
  MessageHeader telling = header(MessageKind::kContribute);
  telling.unit = static_cast<std::uint32_t>(unit);
  telling.number = round;
  telling.fresh = fresh;
  telling.passes = gradient.parts.empty();
  telling.dtype = static_cast<std::uint8_t>(gradient.dtype);
  std::optional<Contribution> own;
  for (const Rank owner : owners(unit)) {
    const std::int64_t slice = spec.slice_begin(owner).value();
    auto parts = parts_within(gradient.parts, slice, slice + spec.slices[owner.value()].value(),
                              gradient.dtype);
    call.awaited.push_back(owner);
    if (owner == rank_) {
      own = Contribution{.round = round,
                         .fresh = fresh,
                         .passes = telling.passes,
                         .dtype = gradient.dtype,
                         .parts = std::move(parts),
                         .call = &call};
      continue;
    }
    giving.elements_left[owner.value()] = elements_of(parts);
    link_.send(owner, telling, bytes_of_values(packed_parts(parts)));
  }
  giving_[unit] = std::move(giving);
  if (own) contribute(unit, rank_, std::move(*own));
}

void Exchange::on_contribute(const Message& message) {
  const MessageHeader& telling = message.header;
  contribute(telling.unit, message.from,
             {.round = telling.number,
              .fresh = telling.fresh,
              .passes = telling.passes,
              .dtype = static_cast<layout::DType>(telling.dtype),
              .parts = unpacked_parts(values_of_bytes<std::int64_t>(message.payload))});
}

void Exchange::contribute(UnitId unit, Rank rank, Contribution contribution) {
  contribution.elements = elements_of(contribution.parts);
  Owned& owned = *owned_[unit];
  auto& place = contribution.round == owned.round ? owned.current : owned.next;
  place[rank.value()] = std::move(contribution);
  admit(unit);
}

// Takes the round's contributions that have come, unless the last sum is still read.
void Exchange::admit(UnitId unit) {
  Owned& owned = *owned_[unit];
  const auto all_released = [&] {
    return std::all_of(owned.released.begin(), owned.released.end(),
                       [&](std::int64_t rounds) { return rounds >= owned.round; });
  };
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    auto& contribution = owned.current[rank];
    if (!contribution || contribution->admitted) continue;
    if (contribution->fresh && !owned.begun && !all_released()) return;
    if (!owned.begun) owned.sum.begin_round(contribution->fresh);
    owned.begun = true;
    contribution->admitted = true;
    if (contribution->elements == 0) {
      if (contribution->call != nullptr) {
        contribution->call->done_with(rank_);
        settle(*std::exchange(contribution->call, nullptr));
      } else {
        MessageHeader taken = header(MessageKind::kTaken);
        taken.unit = static_cast<std::uint32_t>(unit);
        taken.number = owned.round;
        link_.send(Rank(rank), taken);
      }
    }
    for (std::int64_t chunk = 0; chunk < owned.sum.chunks(); ++chunk) {
      if (owned.sum.turn(chunk) == rank) chunk_ready(unit, chunk);
    }
    pull_gradient(unit, Rank(rank));
  }
}

bool Exchange::may_pull(const Owned& owned, const Contribution& contribution, Rank rank,
                        std::int64_t bytes) const {
  if (contribution.under_way >= kChunksAtOnce) return false;
  if (reserve_used_ + bytes <= options_.reserve.value()) return true;
  // What can be added at once needs no more than a chunk, and must never wait for memory.
  return contribution.under_way == 0 && owned.sum.turn(contribution.next_chunk) == rank.value();
}

void Exchange::pull_gradient(UnitId unit, Rank rank) {
  Owned& owned = *owned_[unit];
  auto& contribution = owned.current[rank.value()];
  if (!contribution || !contribution->admitted || contribution->elements == 0 || rank == rank_) {
    return;
  }
  const std::int64_t each = layout::bytes_per_element(contribution->dtype).value();
  while (contribution->next_chunk < owned.sum.chunks()) {
    const std::int64_t chunk = contribution->next_chunk;
    const std::int64_t begin = owned.sum.chunk_begin(chunk).value();
    const std::int64_t size = owned.sum.chunk_size(chunk).value();
    const std::int64_t bytes = each * elements_within(contribution->parts, begin, begin + size);
    if (bytes == 0) {
      ++contribution->next_chunk;
      continue;
    }
    if (ask_into_slot(unit, rank, *contribution)) continue;
    if (awaits_slot(owned, *contribution, rank)) return;
    if (!may_pull(owned, *contribution, rank, bytes)) {
      if (contribution->under_way == 0) starved_.emplace_back(unit, rank);
      return;
    }
    ++contribution->next_chunk;
    ++contribution->under_way;
    reserve_used_ += bytes;
    MessageHeader asking = header(MessageKind::kAsk);
    asking.source = SourceKind::kGradient;
    asking.unit = static_cast<std::uint32_t>(unit);
    asking.number = contribution->round;
    asking.begin = begin;
    asking.size = size;
    asking.tag = link_.new_tag();
    Chunk buffer = pool_.take();
    const auto span = std::span(*buffer).first(static_cast<std::size_t>(bytes));
    link_.receive_bytes(
        rank, asking.tag, span,
        [self = shared_from_this(), this, unit, rank, chunk, buffer, bytes](std::size_t came) {
          // Short: its sender has failed, and says so.
          if (has_failed_ || came != static_cast<std::size_t>(bytes)) return;
          auto& from = owned_[unit]->current[rank.value()];
          --from->under_way;
          from->chunks[chunk] = {.bytes = *buffer, .buffer = buffer};
          if (owned_[unit]->sum.turn(chunk) == rank.value()) {
            chunk_ready(unit, chunk);
          }
          pull_gradient(unit, rank);
        });
    link_.send(rank, asking);
  }
}

void Exchange::on_ask_gradient(Rank owner, const MessageHeader& asking) {
  if (asking.slot >= 0) return fill_slot(owner, asking);
  const auto found = giving_.find(asking.unit);
  if (found == giving_.end() || found->second.round != asking.number) {
    return link_.send_bytes(owner, asking.tag, {}, [](std::size_t) {});
  }
  Chunk buffer = pool_.take();
  const auto filled = std::span<const std::byte>(*buffer).first(fill(*buffer, owner, asking));
  link_.send_bytes(owner, asking.tag, filled, [self = shared_from_this(), buffer](std::size_t) {});
}

// Copies what is asked for; the reduce ends with the last of it.
std::size_t Exchange::fill(std::span<std::byte> target, Rank owner, const MessageHeader& asking) {
  Giving& giving = giving_.at(asking.unit);
  const std::int64_t begin = units_[asking.unit].slice_begin(owner).value() + asking.begin;
  const std::int64_t each = layout::bytes_per_element(giving.dtype).value();
  std::size_t filled = 0;
  std::int64_t elements = 0;
  for (const GradientPart& part :
       parts_within(giving.parts, begin, begin + asking.size, giving.dtype)) {
    const auto bytes = static_cast<std::size_t>(part.elements.value() * each);
    std::memcpy(target.data() + filled, part.data, bytes);
    filled += bytes;
    elements += part.elements.value();
  }
  bytes_reduced_ += static_cast<std::int64_t>(filled);
  giving.elements_left[owner.value()] -= elements;
  if (giving.elements_left[owner.value()] == 0) {
    Call& call = *giving.call;
    call.done_with(owner);
    settle(call);
  }
  return filled;
}

void Exchange::chunk_ready(UnitId unit, std::int64_t chunk) {
  Owned& owned = *owned_[unit];
  owned.chunks_ready.push_back(chunk);
  if (!std::exchange(owned.queued, true)) busy_.push_back(unit);
}

bool Exchange::work() {
  if (busy_.empty() || has_failed_) return false;
  const UnitId unit = busy_.front();
  busy_.pop_front();
  Owned& owned = *owned_[unit];
  owned.queued = false;
  for (int i = 0; i < kAddsAtOnce && !owned.chunks_ready.empty(); ++i) {
    const std::int64_t chunk = owned.chunks_ready.front();
    owned.chunks_ready.pop_front();
    add_chunk(unit, chunk);
  }
  if (!owned.chunks_ready.empty() && !std::exchange(owned.queued, true)) busy_.push_back(unit);
  if (owned.begun && owned.sum.complete()) end_round(unit);
  return true;
}

bool Exchange::has_chunk(const Contribution& contribution, const Owned& owned,
                         std::int64_t chunk) const {
  if (!contribution.admitted) return false;
  if (contribution.elements == 0 || contribution.call != nullptr) return true;
  const std::int64_t begin = owned.sum.chunk_begin(chunk).value();
  const std::int64_t end = begin + owned.sum.chunk_size(chunk).value();
  return contribution.chunks.contains(chunk) ||
         elements_within(contribution.parts, begin, end) == 0;
}

void Exchange::add_chunk(UnitId unit, std::int64_t chunk) {
  Owned& owned = *owned_[unit];
  const std::int64_t rank = owned.sum.turn(chunk);
  if (rank == world_) return;
  auto& contribution = owned.current[rank];
  if (!contribution || !has_chunk(*contribution, owned, chunk)) return;
  add_to_sum(owned, *contribution, chunk);
  ++contribution->chunks_added;
  let_go(unit, Rank(rank), *contribution, chunk);
  if (contribution->call != nullptr && contribution->chunks_added == owned.sum.chunks()) {
    contribution->call->done_with(rank_);
    settle(*std::exchange(contribution->call, nullptr));
  }
  if (owned.sum.turn(chunk) < world_) {
    const auto& following = owned.current[owned.sum.turn(chunk)];
    if (following && has_chunk(*following, owned, chunk)) chunk_ready(unit, chunk);
  }
  // Memory is free, and the chunk has another turn.
  for (const auto& [starved, of] : std::exchange(starved_, {})) pull_gradient(starved, of);
}

void Exchange::add_to_sum(Owned& owned, const Contribution& contribution,
                          std::int64_t chunk) const {
  Gradient gradient{.parts = {}, .dtype = contribution.dtype};
  std::vector<GradientPart> parts;
  if (contribution.call != nullptr) {
    gradient.parts = contribution.parts;
  } else if (const auto found = contribution.chunks.find(chunk);
             found != contribution.chunks.end()) {
    const std::int64_t begin = owned.sum.chunk_begin(chunk).value();
    const std::int64_t size = owned.sum.chunk_size(chunk).value();
    parts = parts_within(contribution.parts, begin, begin + size, contribution.dtype);
    point_into(parts, contribution.dtype, found->second.bytes.data());
    for (GradientPart& part : parts) part.begin += Count(begin);
    gradient.parts = parts;
  }
  owned.sum.add(chunk, gradient, contribution.passes);
}

void Exchange::end_round(UnitId unit) {
  Owned& owned = *owned_[unit];
  ++owned.round;
  owned.begun = false;
  owned.chunks_ready.clear();
  owned.current = std::exchange(
      owned.next, std::vector<std::optional<Contribution>>(static_cast<std::size_t>(world_)));
  tell_waiters(unit);
  answer_waiting(SourceKind::kSum, static_cast<std::uint32_t>(unit));
  admit(unit);
}

void Exchange::await_sum(Call& call, UnitId unit, std::int64_t round) {
  if (!begin(call)) return;
  call.awaited.push_back(rank_);
  owned_[unit]->waiters.emplace_back(&call, round);
  tell_waiters(unit);
}

void Exchange::tell_waiters(UnitId unit) {
  Owned& owned = *owned_[unit];
  for (const auto& [call, round] : std::exchange(owned.waiters, {})) {
    if (owned.round <= round) {
      owned.waiters.emplace_back(call, round);
      continue;
    }
    if (!owned.sum.filled()) call->empty = true;
    call->done_with(rank_);
    settle(*call);
  }
}

SumSpan Exchange::own_sum(UnitId unit) { return owned_[unit]->sum.sum(); }

void Exchange::release(UnitId unit, std::int64_t round) {
  MessageHeader released = header(MessageKind::kReleased);
  released.unit = static_cast<std::uint32_t>(unit);
  released.number = round + 1;
  for (const Rank owner : owners(unit)) {
    if (owner != rank_) {
      link_.send(owner, released);
      continue;
    }
    owned_[unit]->released[rank_.value()] = round + 1;
    admit(unit);
  }
}

// Whether somebody cannot go on before the unit's round is complete.
bool Exchange::wanted(UnitId unit) const {
  const Owned& owned = *owned_[unit];
  const auto asked = asked_.find({SourceKind::kSum, static_cast<std::uint32_t>(unit)});
  if (!owned.waiters.empty() || (asked != asked_.end() && !asked->second.empty())) return true;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const auto& current = owned.current[rank];
    if (owned.next[rank]) return true;
    if (current && (!current->admitted ||
                    (current->elements > 0 && current->chunks_added < owned.sum.chunks()))) {
      return true;
    }
  }
  return false;
}

// Who has to do something first before the round can go on.
std::optional<Rank> Exchange::missing(UnitId unit) const {
  const Owned& owned = *owned_[unit];
  const auto held_back = [](const auto& current) { return current && !current->admitted; };
  if (std::any_of(owned.current.begin(), owned.current.end(), held_back)) {
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      if (owned.released[rank] < owned.round) return Rank(rank);
    }
  }
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (!owned.current[rank]) return Rank(rank);
  }
  return std::nullopt;
}

}  // namespace shardlight::comm
