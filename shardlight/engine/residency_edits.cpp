// What is written into parameters besides the optimizer: kept apart until all ranks agree on it.
#include <algorithm>
#include <cstring>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/residency.h"

namespace shardlight::engine {

// An edit stays where it is made until it is settled. What other ranks read may not change under
// them, so memory that they share or gather from is copied first.
Status Residency::prepare_edit(UnitState& unit, layout::UnitIndex index) {
  unit.edited = true;
  const bool read_by_others =
      shared_units_ || (!sharded() && layout_->placements.optimizer.sharded());
  if (!read_by_others || unit.own_copy.size() > 0) return {};
  const Bytes bytes = layout_->units[index].bytes();
  SHARDLIGHT_TRY(unit.own_copy, memory::Buffer::zeros(*account_, memory::Tag::kGathered, bytes));
  std::copy_n(unit.memory, unit.own_copy.size(), unit.own_copy.data());
  unit.memory = unit.own_copy.data();
  show(unit);
  return {};
}

bool Residency::edited() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(units_, [](const UnitState& unit) { return unit.edited; });
}

Result<std::vector<layout::UnitIndex>> Residency::settle_edits() {
  const std::scoped_lock lock(mutex_);
  std::vector<bool> edited;
  for (const UnitState& unit : units_) edited.push_back(unit.edited);
  SHARDLIGHT_TRY_STATUS(agree_on_any(*transport_, edited, comm::Deadline(deadline_)));
  std::vector<layout::UnitIndex> settled;
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    if (!edited[unit]) continue;
    SHARDLIGHT_TRY_STATUS(settle_edit(unit));
    settled.push_back(unit);
  }
  return settled;
}

Status Residency::settle_edit(layout::UnitIndex unit) {
  UnitState& state = units_[unit];
  if (!state.here) SHARDLIGHT_TRY_STATUS(bring(unit, "an edit"));
  std::vector<std::span<const std::byte>> values;
  for (const ManagedTensor* member : state.members) {
    values.emplace_back(state.memory + member->offset_bytes(), member->bytes());
  }
  const comm::Deadline deadline(deadline_);
  SHARDLIGHT_TRY(const auto differs, first_difference(*transport_, values, deadline));
  if (differs) {
    return user_error("parameter " + state.members[*differs]->name,
                      "changed to other values on some ranks than on others",
                      "the same changes on all ranks before step()");
  }
  state.edited = false;
  ++state.version;
  const std::span<const std::byte> edited(
      state.memory, static_cast<std::size_t>(layout_->units[unit].bytes().value()));
  if (const auto whole = transport_->whole(unit); !whole.empty()) {
    if (whole.data() != state.memory) std::ranges::copy(edited, whole.begin());
    state.memory = whole.data();
    show(state);
  } else {
    const auto shard = transport_->shard(unit);
    std::ranges::copy(edited.subspan(layout_->slice_begin_bytes(unit), shard.size()),
                      shard.begin());
    if (shared_units_) send_away(unit);
  }
  state.own_copy = {};
  return transport_->publish(unit, state.version);
}

}  // namespace shardlight::engine
