// The first values of units, and how parameters pass from one residency to the next.
#include <algorithm>
#include <cstring>

#include "shardlight/engine/building.h"
#include "shardlight/engine/carry.h"
#include "shardlight/engine/residency.h"

namespace shardlight::engine {

Result<std::unique_ptr<Residency>> Residency::create(const ModelLayout& layout,
                                                     const Options& options,
                                                     ManagedTensors& parameters,
                                                     comm::Transport& transport,
                                                     memory::Account& account,
                                                     const TorchMeter& meter, FirstValues values) {
  std::unique_ptr<Residency> residency(new Residency(layout, options, transport, account, meter));
  SHARDLIGHT_TRY_STATUS(residency->start(parameters, values));
  return residency;
}

Status Residency::start(ManagedTensors& parameters, FirstValues values) {
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    for (const layout::PlacedParameter& placed : layout_->units[unit].parameters) {
      ManagedTensor& parameter = *parameters[placed.parameter];
      parameter.unit = unit;
      parameter.offset = placed.offset.value();
      parameter.keeper = this;
      parameter.users = 0;
      parameter.away = "parameter " + parameter.name +
                       " is not gathered; read it in an operator or within Engine::gathered";
      units_[unit].members.push_back(&parameter);
    }
  }
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    SHARDLIGHT_TRY_STATUS(values.carried != nullptr ? publish_carried(unit, *values.carried)
                                                    : publish_initial(unit, values.building));
  }
  if (sharded() && !shared_units_) {
    SHARDLIGHT_TRY(arena_,
                   memory::Arena::create(*account_, memory::Tag::kGathered, gathered_bytes_));
  }
  return {};
}

// All ranks start from rank 0's values, unit by unit, so that no rank holds more than one besides
// the model it came with; the model's own memory of the unit goes with it.
Status Residency::publish_initial(layout::UnitIndex unit, Building* building) {
  UnitState& state = units_[unit];
  SHARDLIGHT_TRY(const auto buffer, memory::Buffer::zeros(*account_, memory::Tag::kGathered,
                                                          layout_->units[unit].bytes()));
  const std::span<std::byte> values = buffer.bytes();
  for (ManagedTensor* member : state.members) {
    if (member->bytes() == 0) continue;
    if (building != nullptr) SHARDLIGHT_TRY_STATUS(building->bring(member->tensor));
    std::memcpy(values.data() + member->offset_bytes(), member->memory().data(), member->bytes());
    // Of a model that may be larger than memory, no more than one tensor is whole besides.
    if (building != nullptr) take_away(*member, member->away);
  }
  const comm::Deadline deadline(deadline_);
  SHARDLIGHT_TRY_STATUS(transport_->broadcast(values, Rank(0), deadline));
  if (const auto whole = transport_->whole(unit); !whole.empty()) {
    std::ranges::copy(values, whole.begin());
    state.memory = whole.data();
  } else {
    const auto shard = transport_->shard(unit);
    std::ranges::copy(values.subspan(layout_->slice_begin_bytes(unit), shard.size()),
                      shard.begin());
  }
  for (ManagedTensor* member : state.members) take_away(*member, member->away);
  if (state.memory != nullptr) show(state);
  return transport_->publish(unit, 1);
}

// Parameters that the engine had before are carried to this rank's shard. New ones have rank 0's
// values, in their own memory first, so that nothing is held besides.
Status Residency::publish_carried(layout::UnitIndex unit, Carry& carried) {
  UnitState& state = units_[unit];
  const comm::Deadline deadline(deadline_);
  const auto shard = transport_->shard(unit);
  SHARDLIGHT_TRY_STATUS(carried.fill(unit, shard, layout_->units[unit].dtype));
  for (ManagedTensor* member : state.members) {
    if (is_managed(*member)) continue;
    const std::span<std::byte> values(static_cast<std::byte*>(member->memory().mutable_data()),
                                      member->bytes());
    if (!values.empty()) {
      SHARDLIGHT_TRY_STATUS(transport_->broadcast(values, Rank(0), deadline));
      copy_own_part(*member, values, shard);
    }
    take_away(*member, member->away);
  }
  SHARDLIGHT_TRY_STATUS(transport_->publish(unit, 1));
  state.memory = transport_->whole(unit).data();
  // Where every rank steps all of it, it is never away.
  if (layout_->placements.optimizer.sharded()) return {};
  SHARDLIGHT_TRY_STATUS(gather(unit, "refresh()"));
  show(state);
  return {};
}

// What of the parameter lies in this rank's shard of its unit.
void Residency::copy_own_part(const ManagedTensor& parameter, std::span<const std::byte> values,
                              std::span<std::byte> shard) const {
  const std::size_t shard_begin = layout_->slice_begin_bytes(parameter.unit);
  const std::size_t begin = std::max(shard_begin, parameter.offset_bytes());
  const std::size_t end =
      std::min(shard_begin + shard.size(), parameter.offset_bytes() + values.size());
  if (begin >= end) return;
  std::memcpy(shard.data() + (begin - shard_begin),
              values.data() + (begin - parameter.offset_bytes()), end - begin);
}

Status Residency::let_go_of(const std::vector<bool>& parameters) {
  const std::scoped_lock lock(mutex_);
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    auto& members = units_[index].members;
    const auto goes = [&](const ManagedTensor* member) { return parameters[member->index]; };
    const auto gone = std::ranges::stable_partition(members, std::not_fn(goes));
    if (gone.empty()) continue;
    SHARDLIGHT_TRY_STATUS(give_back(index, gone, std::nullopt));
    members.erase(gone.begin(), gone.end());
  }
  return {};
}

void Residency::leave() {
  const std::scoped_lock lock(mutex_);
  gone_ = true;
  for (UnitState& unit : units_) unit = UnitState();
  arena_.reset();
}

}  // namespace shardlight::engine
