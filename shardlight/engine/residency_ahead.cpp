// Bringing units before they are used, by what the micro-step before did.
#include <algorithm>

#include "shardlight/engine/residency.h"

namespace shardlight::engine {
namespace {

// So many uses ahead are looked at: what is further would only be sent away again.
constexpr std::size_t kLookAhead = 8;

}  // namespace

void Residency::end_micro_step() {
  const std::scoped_lock lock(mutex_);
  trace_.end_micro_step();
}

void Residency::look_ahead() {
  const std::scoped_lock lock(mutex_);
  begin_ahead();
}

void Residency::begin_ahead() {
  if (!lane_ || error_) return;
  const auto ahead = trace_.ahead();
  for (const layout::UnitIndex unit : ahead.first(std::min(kLookAhead, ahead.size()))) {
    UnitState& state = units_[unit];
    if (state.here || state.coming) continue;
    const Bytes bytes = layout_->units[unit].bytes();
    if (coming_bytes_ + bytes > prefetch_bytes_) return;
    if (sharded() && !find_memory_ahead(unit)) return;
    const std::span<std::byte> target(state.memory, static_cast<std::size_t>(bytes.value()));
    state.coming = lane_->gather(unit, state.version, target, comm::Deadline(deadline_));
    coming_bytes_ += bytes;
    count_gather(unit);
  }
}

// Nothing is sent away for it that is used before it.
bool Residency::find_memory_ahead(layout::UnitIndex unit) {
  const Bytes bytes = layout_->units[unit].bytes();
  const auto until_use = trace_.distance(unit);
  std::byte* memory = nullptr;
  while ((memory = arena_->take(bytes)) == nullptr) {
    const auto next = victim();
    if (!next || next == last_used_) return false;
    const auto until_next = trace_.distance(*next);
    if (until_next && *until_next < until_use) return false;
    send_away(*next);
  }
  units_[unit].memory = memory;
  return true;
}

Status Residency::settle_gathers() {
  const std::scoped_lock lock(mutex_);
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].coming) SHARDLIGHT_TRY_STATUS(bring(unit, "the step"));
  }
  return {};
}

}  // namespace shardlight::engine
