#include "shardlight/engine/residency.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "shardlight/engine/autograd_hooks.h"

namespace shardlight::engine {
namespace {

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes.value()); }

Status no_memory_for(const layout::Unit& unit) {
  return Failure(Error::environment(
      {.rank = {}, .unit = unit.name, .operation = "allocation"},
      "no memory for " + std::to_string(unit.bytes().value()) + " bytes of the model's own",
      Unusable::kOperation));
}

}  // namespace

Residency::Residency(const ModelLayout& layout, const Options& options, comm::Transport& transport,
                     memory::Account& account, const TorchMeter& meter)
    : layout_(&layout),
      transport_(&transport),
      account_(&account),
      meter_(&meter),
      prefetch_bytes_(options.prefetch_bytes),
      shared_units_(options.shared_units && layout.placements.parameters.sharded()),
      cap_given_(options.gathered_bytes.has_value()),
      retain_(options.retain),
      poison_(options.debug.poison),
      deadline_(options.deadline),
      units_(layout.units.size()),
      trace_(layout.units.size()) {
  gathered_bytes_ = cap(options);
  // What is never out of date, or not moved, needs nobody to bring it.
  const bool moves = layout.placements.optimizer.sharded() && !shared_units_;
  if (moves && prefetch_bytes_ > Bytes(0)) {
    lane_ = std::make_unique<comm::Lane>(transport, "gather");
  }
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

void Residency::show(UnitState& unit) {
  for (ManagedTensor* member : unit.members) {
    point_at(*member, unit.memory + member->offset_bytes());
    if (arena_ && member->users == 0) shut(*member);
  }
  unit.here = true;
}

// Memory of the arena is another unit's soon: a pointer to it that outlives its operator would
// read that, so there is none to be had.
void Residency::begin_use(ManagedTensor& parameter) const {
  if (arena_ && parameter.users++ == 0) open(parameter);
}

void Residency::end_use(ManagedTensor& parameter) const {
  if (arena_ && --parameter.users == 0) shut(parameter);
}

void Residency::send_away(layout::UnitIndex unit) {
  UnitState& state = units_[unit];
  if (!state.here) return;
  for (ManagedTensor* member : state.members) take_away(*member, member->away);
  state.here = false;
  if (arena_ && poison_) std::memset(state.memory, 0xff, size_of(layout_->units[unit].bytes()));
  if (arena_) arena_->give(state.memory);
  if (sharded()) state.memory = nullptr;
}

bool Residency::pin(ManagedTensor& parameter, bool writes, const char* operator_name) {
  if (forks() != forks_) {
    take_away(parameter, "parameter " + parameter.name +
                             " belongs to an engine of the process that this one was forked from");
    return false;
  }
  meter_->here();
  const std::scoped_lock lock(mutex_);
  UnitState& unit = units_[parameter.unit];
  if (error_) {
    fail(parameter, *error_);
    return false;
  }
  if (!retain_) end_last_use(parameter.unit);
  ++unit.pins;
  unit.last_use = ++clock_;
  last_used_ = parameter.unit;
  // Evaluation is no part of a micro-step.
  const bool trains = at::GradMode::is_enabled() || in_backward();
  const bool goes_on = trains && trace_.use(parameter.unit);
  auto ready = unit.here ? Status() : bring(parameter.unit, operator_name);
  if (ready && writes) ready = prepare_edit(unit, parameter.unit);
  if (!ready) {
    --unit.pins;
    error_ = std::move(ready).error();
    fail(parameter, *error_);
    return false;
  }
  begin_use(parameter);
  if (goes_on) begin_ahead();
  return true;
}

// Without retention a unit goes when another one is used, or when backward takes over from forward.
void Residency::end_last_use(layout::UnitIndex next) {
  const bool backward = in_backward();
  const bool ends = last_used_ && (*last_used_ != next || backward != last_use_in_backward_);
  last_use_in_backward_ = backward;
  if (!ends || !sharded()) return;
  const UnitState& before = units_[*last_used_];
  if (before.pins == 0 && !before.edited) send_away(*last_used_);
}

void Residency::unpin(ManagedTensor& parameter) {
  const std::scoped_lock lock(mutex_);
  --units_[parameter.unit].pins;
  end_use(parameter);
}

void Residency::fail(ManagedTensor& parameter, const Error& error) {
  UnitState& unit = units_[parameter.unit];
  if (unit.pins == 0) send_away(parameter.unit);
  if (!unit.here) take_away(parameter, error.message());
}

std::optional<Error> Residency::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
}

Status Residency::bring(layout::UnitIndex unit, const char* for_what) {
  UnitState& state = units_[unit];
  const auto began = std::chrono::steady_clock::now();
  if (state.coming) {
    const auto arrived = state.coming->wait(comm::Deadline(deadline_));
    state.coming.reset();
    coming_bytes_ = coming_bytes_ - layout_->units[unit].bytes();
    if (!arrived) return arrived;
    ++count_.ahead;
  } else if (shared_units_) {
    SHARDLIGHT_TRY(const auto view,
                   transport_->view(unit, state.version, comm::Deadline(deadline_)));
    if (view.empty() && layout_->units[unit].elements > Count(0)) {
      return user_error("shared_units", "true", "false on this transport, which shares no units");
    }
    state.memory = const_cast<std::byte*>(view.data());
    count_gather(unit);
  } else {
    SHARDLIGHT_TRY_STATUS(gather(unit, for_what));
  }
  show(state);
  count_.waited += std::chrono::steady_clock::now() - began;
  return {};
}

Status Residency::gather(layout::UnitIndex unit, const char* for_what) {
  UnitState& state = units_[unit];
  if (sharded()) SHARDLIGHT_TRY_STATUS(find_memory(unit, for_what));
  const std::span<std::byte> target(state.memory, size_of(layout_->units[unit].bytes()));
  auto gathered = transport_->gather(unit, state.version, target, comm::Deadline(deadline_));
  if (!gathered && arena_) arena_->give(state.memory);
  count_gather(unit);
  return gathered;
}

void Residency::count_gather(layout::UnitIndex unit) {
  ++count_.gathers;
  if (!shared_units_) count_.wire_bytes += layout_->bytes_of_others(unit);
}

Status Residency::find_memory(layout::UnitIndex unit, const char* for_what) {
  const Bytes bytes = layout_->units[unit].bytes();
  std::byte* memory = nullptr;
  while ((memory = arena_->take(bytes)) == nullptr) {
    auto next = victim();
    if (!next) {
      SHARDLIGHT_TRY(next, await_any());
    }
    if (!next && !cap_given_) {
      // An operator that needs more than the two largest units has to have it.
      arena_->allow(arena_->used() + bytes - arena_->size());
      continue;
    }
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

// Of those on their way, one that has come: it may be sent away again.
Result<std::optional<layout::UnitIndex>> Residency::await_any() {
  const auto coming =
      std::ranges::find_if(units_, [](const UnitState& unit) { return unit.coming.has_value(); });
  if (coming == units_.end()) return std::nullopt;
  const auto unit = static_cast<layout::UnitIndex>(coming - units_.begin());
  SHARDLIGHT_TRY_STATUS(bring(unit, "the cap"));
  return unit;
}

// Belady's choice where uses are foreseen: the one whose next use is farthest, or that has none.
std::optional<layout::UnitIndex> Residency::victim() const {
  constexpr auto kNever = std::numeric_limits<std::size_t>::max();
  std::optional<layout::UnitIndex> found;
  const auto later = [&](layout::UnitIndex a, layout::UnitIndex b) {
    const std::size_t to_a = trace_.distance(a).value_or(kNever);
    const std::size_t to_b = trace_.distance(b).value_or(kNever);
    return to_a != to_b ? to_a > to_b : units_[a].last_use < units_[b].last_use;
  };
  for (layout::UnitIndex unit = 0; unit < units_.size(); ++unit) {
    const UnitState& state = units_[unit];
    if (!state.here || state.pins > 0 || state.edited) continue;
    if (!found || later(unit, *found)) found = unit;
  }
  return found;
}

std::span<std::byte> Residency::stepped(layout::UnitIndex unit) {
  return layout_->placements.optimizer.sharded() ? transport_->shard(unit)
                                                 : transport_->whole(unit);
}

Status Residency::stepped_done(layout::UnitIndex unit) {
  const std::scoped_lock lock(mutex_);
  UnitState& state = units_[unit];
  ++state.version;
  for (ManagedTensor* member : state.members) {
    member->tensor.unsafeGetTensorImpl()->bump_version();
  }
  // Where every rank steps all of it, all of it is up to date.
  if (layout_->placements.optimizer.sharded()) send_away(unit);
  return transport_->publish(unit, state.version);
}

Status Residency::hold(layout::UnitIndex unit, bool writes) {
  const std::scoped_lock lock(mutex_);
  if (error_) return Failure(*error_);
  UnitState& state = units_[unit];
  if (!state.here) SHARDLIGHT_TRY_STATUS(bring(unit, "gathered()"));
  if (writes) SHARDLIGHT_TRY_STATUS(prepare_edit(state, unit));
  ++state.pins;
  for (ManagedTensor* member : state.members) begin_use(*member);
  return {};
}

void Residency::unhold(layout::UnitIndex unit) {
  const std::scoped_lock lock(mutex_);
  if (gone_) return;
  --units_[unit].pins;
  for (ManagedTensor* member : units_[unit].members) end_use(*member);
}

std::optional<layout::UnitIndex> Residency::held() const {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::ranges::find_if(units_, [](const UnitState& unit) { return unit.pins > 0; });
  if (found == units_.end()) return std::nullopt;
  return static_cast<layout::UnitIndex>(found - units_.begin());
}

Residency::~Residency() {
  if (gone_) return;
  for (UnitState& unit : units_) lose(unit, "the engine could not be made");
}

void Residency::lose(UnitState& unit, const std::string& why) {
  for (ManagedTensor* member : unit.members) {
    if (!is_managed(*member)) continue;
    retire(*member, "parameter " + member->name + " was lost with its engine: " + why);
  }
}

// Needs no room in the arena, and no other rank where the values are here.
Status Residency::let_go(const std::optional<Error>& not_gathered) {
  Status status = settle_gathers();
  const std::scoped_lock lock(mutex_);
  gone_ = true;
  for (layout::UnitIndex index = 0; index < units_.size(); ++index) {
    UnitState& unit = units_[index];
    auto given = give_back(index, unit.members, not_gathered);
    if (!given) {
      lose(unit, given.error().message());
      if (!not_gathered) status = std::move(given);
    }
    unit = UnitState();
  }
  if (arena_) count_.peak = arena_->used_peak();
  arena_.reset();
  return status;
}

Status Residency::give_back(layout::UnitIndex index, std::span<ManagedTensor* const> members,
                            const std::optional<Error>& not_gathered) {
  const UnitState& unit = units_[index];
  try {
    std::vector<std::byte> fetched;
    const std::byte* values = unit.memory;
    if (!unit.here) {
      if (not_gathered) return Failure(*not_gathered);
      fetched.resize(size_of(layout_->units[index].bytes()));
      SHARDLIGHT_TRY_STATUS(
          transport_->gather(index, unit.version, fetched, comm::Deadline(deadline_)));
      values = fetched.data();
    }
    for (ManagedTensor* member : members) {
      engine::let_go(*member, values + member->offset_bytes());
    }
    return {};
  } catch (const std::bad_alloc&) {
    return no_memory_for(layout_->units[index]);
  } catch (const c10::Error&) {
    return no_memory_for(layout_->units[index]);
  }
}

GatherCount Residency::count() const {
  const std::scoped_lock lock(mutex_);
  GatherCount count = count_;
  if (arena_) count.peak = arena_->used_peak();
  count.unforeseen = trace_.unforeseen();
  return count;
}

}  // namespace shardlight::engine
