#include "shardlight/engine/residency.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "shardlight/engine/agreement.h"

namespace shardlight::engine {
namespace {

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes.value()); }

std::string away_message(const ManagedParameter& parameter) {
  return "parameter " + parameter.name +
         " is not gathered; read it in an operator or within Engine::gathered";
}

}  // namespace

Residency::Residency(const ModelLayout& layout, const Options& options, comm::Transport& transport,
                     memory::Account& account, const TorchMeter& meter)
    : layout_(&layout),
      transport_(&transport),
      account_(&account),
      meter_(&meter),
      shared_units_(options.shared_units && layout.placements.parameters.sharded()),
      retain_(options.retain),
      deadline_(options.deadline),
      units_(layout.units.size()) {
  gathered_bytes_ = cap(options);
}

Result<std::unique_ptr<Residency>> Residency::create(
    const ModelLayout& layout, const Options& options, ManagedParameters& parameters,
    comm::Transport& transport, memory::Account& account, const TorchMeter& meter) {
  std::unique_ptr<Residency> residency(new Residency(layout, options, transport, account, meter));
  SHARDLIGHT_TRY_STATUS(residency->start(parameters));
  return residency;
}

Bytes Residency::cap(const Options& options) const {
  if (!sharded() || shared_units_) return Bytes(0);
  std::vector<Bytes> sizes;
  Bytes all;
  for (const layout::Unit& unit : layout_->units) {
    sizes.push_back(unit.bytes());
    all += unit.bytes();
  }
  std::ranges::sort(sizes, std::greater());
  Bytes two_largest;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, sizes.size()); ++i) two_largest += sizes[i];
  return std::min(all, options.gathered_bytes.value_or(two_largest));
}

Status Residency::start(ManagedParameters& parameters) {
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    for (const layout::PlacedParameter& placed : layout_->units[unit].parameters) {
      ManagedParameter& parameter = *parameters[placed.parameter];
      parameter.unit = unit;
      parameter.offset = placed.offset.value();
      parameter.residency = this;
      units_[unit].members.push_back(&parameter);
    }
    SHARDLIGHT_TRY_STATUS(publish_initial(unit));
  }
  if (sharded() && !shared_units_) {
    SHARDLIGHT_TRY(arena_,
                   memory::Arena::create(*account_, memory::Tag::kGathered, gathered_bytes_));
  }
  return {};
}

// All ranks start from rank 0's values, unit by unit, so that no rank holds more than one besides
// the model it came with; the model's own memory of the unit goes with it.
Status Residency::publish_initial(layout::UnitIndex unit) {
  UnitState& state = units_[unit];
  std::vector<std::byte> values(size_of(layout_->units[unit].bytes()));
  for (const ManagedParameter* member : state.members) {
    if (member->bytes() == 0) continue;
    std::memcpy(values.data() + member->offset * sizeof(float), member->storage->data(),
                member->bytes());
  }
  const comm::Deadline deadline(deadline_);
  SHARDLIGHT_TRY_STATUS(transport_->broadcast(values, Rank(0), deadline));
  if (const auto whole = transport_->whole(unit); !whole.empty()) {
    std::ranges::copy(values, whole.begin());
    state.memory = whole.data();
  } else {
    const auto begin = layout_->exchanged.slice(unit, layout_->rank).begin.value();
    const auto shard = transport_->shard(unit);
    std::memcpy(shard.data(), values.data() + begin * sizeof(float), shard.size());
  }
  for (ManagedParameter* member : state.members) take_away(*member, away_message(*member));
  if (state.memory != nullptr) show(state);
  return transport_->publish(unit, 1);
}

void Residency::show(UnitState& unit) {
  for (ManagedParameter* member : unit.members) {
    point_at(*member, unit.memory + member->offset * sizeof(float));
  }
  unit.here = true;
}

void Residency::send_away(layout::UnitIndex unit) {
  UnitState& state = units_[unit];
  if (!state.here) return;
  for (ManagedParameter* member : state.members) take_away(*member, away_message(*member));
  state.here = false;
  if (arena_) arena_->give(state.memory);
  if (sharded()) state.memory = nullptr;
}

bool Residency::pin(ManagedParameter& parameter, bool writes, const char* operator_name) {
  meter_->here();
  const std::lock_guard lock(mutex_);
  UnitState& unit = units_[parameter.unit];
  if (error_) {
    fail(parameter, *error_);
    return false;
  }
  ++unit.pins;
  unit.last_use = ++clock_;
  if (!retain_ && last_used_ && *last_used_ != parameter.unit && sharded()) {
    const UnitState& before = units_[*last_used_];
    if (before.pins == 0 && !before.edited) send_away(*last_used_);
  }
  last_used_ = parameter.unit;
  auto ready = unit.here ? Status() : bring(parameter.unit, operator_name);
  if (ready && writes) ready = prepare_edit(unit, parameter.unit);
  if (!ready) {
    --unit.pins;
    error_ = std::move(ready).error();
    fail(parameter, *error_);
    return false;
  }
  return true;
}

void Residency::unpin(ManagedParameter& parameter, bool /*wrote*/) {
  const std::lock_guard lock(mutex_);
  --units_[parameter.unit].pins;
}

void Residency::fail(ManagedParameter& parameter, const Error& error) {
  UnitState& unit = units_[parameter.unit];
  if (unit.pins == 0) send_away(parameter.unit);
  if (!unit.here) take_away(parameter, error.message());
}

std::optional<Error> Residency::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

Status Residency::bring(layout::UnitIndex unit, const char* for_what) {
  UnitState& state = units_[unit];
  const comm::Deadline deadline(deadline_);
  const auto began = std::chrono::steady_clock::now();
  if (shared_units_) {
    SHARDLIGHT_TRY(const auto view, transport_->view(unit, state.version, deadline));
    if (view.empty() && layout_->units[unit].elements > Count(0)) {
      return user_error("shared_units", "true", "false on this transport, which shares no units");
    }
    state.memory = const_cast<std::byte*>(view.data());
  } else {
    if (sharded()) SHARDLIGHT_TRY_STATUS(find_memory(unit, for_what));
    const std::span<std::byte> target(state.memory, size_of(layout_->units[unit].bytes()));
    if (auto gathered = transport_->gather(unit, state.version, target, deadline); !gathered) {
      if (arena_) arena_->give(state.memory);
      return gathered;
    }
  }
  show(state);
  ++count_.gathers;
  if (!shared_units_) {
    const Count own = layout_->exchanged.slice(unit, layout_->rank).size();
    count_.wire_bytes += layout_->units[unit].bytes() -
                         Bytes(own.value() * static_cast<std::int64_t>(sizeof(float)));
  }
  count_.waited += std::chrono::steady_clock::now() - began;
  return {};
}

Status Residency::find_memory(layout::UnitIndex unit, const char* for_what) {
  const Bytes bytes = layout_->units[unit].bytes();
  std::byte* memory = nullptr;
  while ((memory = arena_->take(bytes)) == nullptr) {
    const auto next = victim();
    if (!next) {
      const Bytes over = arena_->used() + bytes - arena_->size();
      return user_error("gathered_bytes", std::to_string(gathered_bytes_.value()),
                        "at least " + std::to_string(over.value()) + " bytes more: " + for_what +
                            " uses unit " + layout_->units[unit].name + " (" +
                            std::to_string(bytes.value()) + " bytes) beside others that take " +
                            std::to_string(arena_->used().value()));
    }
    send_away(*next);
  }
  units_[unit].memory = memory;
  return {};
}

std::optional<layout::UnitIndex> Residency::victim() const {
  std::optional<layout::UnitIndex> found;
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    const UnitState& state = units_[unit];
    if (!state.here || state.pins > 0 || state.edited) continue;
    if (!found || state.last_use < units_[*found].last_use) found = unit;
  }
  return found;
}

std::span<float> Residency::stepped(layout::UnitIndex unit) {
  const auto bytes =
      layout_->placements.optimizer.sharded() ? transport_->shard(unit) : transport_->whole(unit);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

Status Residency::stepped_done(layout::UnitIndex unit) {
  const std::lock_guard lock(mutex_);
  UnitState& state = units_[unit];
  ++state.version;
  for (ManagedParameter* member : state.members) {
    member->tensor.unsafeGetTensorImpl()->bump_version();
  }
  // Where every rank steps all of it, all of it is up to date.
  if (layout_->placements.optimizer.sharded()) send_away(unit);
  return transport_->publish(unit, state.version);
}

Status Residency::hold(layout::UnitIndex unit, bool writes) {
  const std::lock_guard lock(mutex_);
  if (error_) return Failure(*error_);
  UnitState& state = units_[unit];
  if (!state.here) SHARDLIGHT_TRY_STATUS(bring(unit, "gathered()"));
  if (writes) SHARDLIGHT_TRY_STATUS(prepare_edit(state, unit));
  ++state.pins;
  return {};
}

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
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(units_, [](const UnitState& unit) { return unit.edited; });
}

Status Residency::settle_edits() {
  const std::lock_guard lock(mutex_);
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    std::vector<double> edited = {units_[unit].edited ? 1.0 : 0.0};
    SHARDLIGHT_TRY_STATUS(
        transport_->all_reduce(edited, comm::Combine::kMax, comm::Deadline(deadline_)));
    if (edited.front() > 0) SHARDLIGHT_TRY_STATUS(settle_edit(unit));
  }
  return {};
}

Status Residency::settle_edit(layout::UnitIndex unit) {
  UnitState& state = units_[unit];
  if (!state.here) SHARDLIGHT_TRY_STATUS(bring(unit, "an edit"));
  std::vector<std::span<const std::byte>> values;
  for (const ManagedParameter* member : state.members) {
    values.emplace_back(state.memory + member->offset * sizeof(float), member->bytes());
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
  const std::span<const std::byte> edited(state.memory, size_of(layout_->units[unit].bytes()));
  if (const auto whole = transport_->whole(unit); !whole.empty()) {
    if (whole.data() != state.memory) std::ranges::copy(edited, whole.begin());
    state.memory = whole.data();
    show(state);
  } else {
    const auto begin = layout_->exchanged.slice(unit, layout_->rank).begin.value();
    const auto shard = transport_->shard(unit);
    std::memcpy(shard.data(), edited.data() + begin * sizeof(float), shard.size());
    if (shared_units_) send_away(unit);
  }
  state.own_copy = {};
  return transport_->publish(unit, state.version);
}

void Residency::unhold(layout::UnitIndex unit) {
  const std::lock_guard lock(mutex_);
  --units_[unit].pins;
}

std::span<const float> Residency::values(layout::UnitIndex unit) const {
  return {reinterpret_cast<const float*>(units_[unit].memory),
          static_cast<std::size_t>(layout_->units[unit].elements.value())};
}

Status Residency::let_go() {
  Status status;
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    if (status) status = hold(unit, false);
    for (ManagedParameter* member : units_[unit].members) {
      if (status) {
        engine::let_go(*member, units_[unit].memory + member->offset * sizeof(float));
      } else {
        engine::let_go(*member, nullptr);
        member->storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
            "parameter " + member->name + " was lost with its engine: " + status.error().message());
      }
    }
    if (!status) continue;
    units_[unit].here = false;
    units_[unit].pins = 0;
    if (arena_) arena_->give(units_[unit].memory);
  }
  return status;
}

GatherCount Residency::count() const {
  const std::lock_guard lock(mutex_);
  GatherCount count = count_;
  if (arena_) count.peak = arena_->used_peak();
  return count;
}

}  // namespace shardlight::engine
