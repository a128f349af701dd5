// Gradients between ranks of one host: an owner names a slot in the contributor's outbox, which the
// contributor fills and the owner adds from. Where all slots are taken by chunks before their turn,
// more of them come as between hosts.
#include <atomic>
#include <utility>

#include "shardlight/comm/gradient_parts.h"
#include "shardlight/comm/mpi/exchange.h"

namespace shardlight::comm {
namespace {

// Both sides of a message that hands a slot over; MPI orders its own memory alone.
void order_memory() { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace

void Exchange::use(std::shared_ptr<const PeerMemories> peers) {
  peers_ = std::move(peers);
  free_slots_.resize(static_cast<std::size_t>(world_));
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    for (std::int32_t slot = 0; slot < kSlots && (*peers_)[rank]; ++slot) {
      free_slots_[rank].push_back(slot);
    }
  }
}

// For the contribution's next chunk; false where there is no slot.
bool Exchange::ask_into_slot(UnitId unit, Rank rank, Contribution& contribution) {
  if (!peers_ || free_slots_[rank.value()].empty()) return false;
  const SliceSum& sum = owned_[unit]->sum;
  const std::int64_t chunk = contribution.next_chunk++;
  ++contribution.under_way;
  ++contribution.slots;
  MessageHeader asking = header(MessageKind::kAsk);
  asking.source = SourceKind::kGradient;
  asking.unit = static_cast<std::uint32_t>(unit);
  asking.number = contribution.round;
  asking.ask = chunk;
  asking.begin = sum.chunk_begin(chunk).value();
  asking.size = sum.chunk_size(chunk).value();
  asking.slot = free_slots_[rank.value()].back();
  free_slots_[rank.value()].pop_back();
  order_memory();
  link_.send(rank, asking);
  return true;
}

// Whether the chunk's turn has come but the adding is behind: then a slot is free soon, while one
// that is before its turn goes where there is more room. Chunks that have slots wait for lower
// ranks only, so no ranks wait in a circle.
bool Exchange::awaits_slot(const Owned& owned, const Contribution& contribution, Rank rank) const {
  return contribution.slots > 0 && owned.sum.turn(contribution.next_chunk) == rank.value();
}

void Exchange::fill_slot(Rank owner, const MessageHeader& asking) {
  const auto found = giving_.find(asking.unit);
  // This rank has failed, and says so.
  if (found == giving_.end() || found->second.round != asking.number) return;
  order_memory();
  fill(memory_.slot(owner, asking.slot), owner, asking);
  order_memory();
  MessageHeader answering = asking;
  answering.kind = MessageKind::kAnswer;
  link_.send(owner, answering);
}

void Exchange::on_slot_filled(Rank rank, const MessageHeader& answering) {
  if (has_failed_) return;
  order_memory();
  Owned& owned = *owned_[answering.unit];
  auto& from = owned.current[rank.value()];
  --from->under_way;
  from->chunks[answering.ask] = {.bytes = (*peers_)[rank.value()]->slot(rank_, answering.slot),
                                 .buffer = nullptr,
                                 .slot = answering.slot};
  if (owned.sum.turn(answering.ask) == rank.value()) chunk_ready(answering.unit, answering.ask);
  pull_gradient(answering.unit, rank);
}

// A chunk has been added.
void Exchange::let_go(UnitId unit, Rank rank, Contribution& contribution, std::int64_t chunk) {
  const auto held = contribution.chunks.extract(chunk);
  if (held.empty()) return;
  if (held.mapped().slot >= 0) {
    --contribution.slots;
    free_slots_[rank.value()].push_back(held.mapped().slot);
    return pull_gradient(unit, rank);
  }
  const SliceSum& sum = owned_[unit]->sum;
  const std::int64_t begin = sum.chunk_begin(chunk).value();
  const std::int64_t end = begin + sum.chunk_size(chunk).value();
  reserve_used_ -= layout::bytes_per_element(contribution.dtype).value() *
                   elements_within(contribution.parts, begin, end);
}

}  // namespace shardlight::comm
