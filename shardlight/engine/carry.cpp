#include "shardlight/engine/carry.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardlight::engine {
namespace {

// The units with those of their parameters that are carried, under their new indices.
std::vector<layout::Unit> carried_of(std::vector<layout::Unit> units,
                                     const Renumbering& renumbering) {
  for (layout::Unit& unit : units) {
    std::vector<layout::PlacedParameter> carried;
    for (layout::PlacedParameter placed : unit.parameters) {
      const auto index = renumbering[placed.parameter];
      if (!index) continue;
      placed.parameter = *index;
      carried.push_back(placed);
    }
    unit.parameters = std::move(carried);
  }
  return units;
}

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes.value()); }

}  // namespace

Carry::Carry(std::vector<layout::ReshardCopy> copies, std::vector<memory::Buffer> slices,
             comm::Transport& transport, Seconds deadline)
    : copies_(std::move(copies)),
      slices_(std::move(slices)),
      last_use_(slices_.size()),
      transport_(&transport),
      deadline_(deadline) {}

Result<Carry> Carry::create(const ModelLayout& before, const ModelLayout& after,
                            const layout::Placement& placement, const Renumbering& renumbering,
                            std::vector<memory::Buffer> slices, comm::Transport& transport,
                            Seconds deadline) {
  Renumbering as_it_is(after.table.size());
  for (const auto& index : renumbering) {
    if (index) as_it_is[*index] = index;
  }
  SHARDLIGHT_TRY(const auto from, layout::SliceTable::create(carried_of(before.units, renumbering),
                                                             placement, before.world));
  SHARDLIGHT_TRY(const auto to, layout::SliceTable::create(carried_of(after.units, as_it_is),
                                                           placement, after.world));
  SHARDLIGHT_TRY(auto copies, layout::reshard(from, to));
  // One order for all ranks, in which whoever is first finds its partner free.
  std::ranges::stable_sort(copies, {}, &layout::ReshardCopy::target_unit);
  Carry carry(std::move(copies), std::move(slices), transport, deadline);
  for (const layout::ReshardCopy& copy : carry.copies_) {
    if (copy.source == before.rank) carry.last_use_[copy.source_unit] = copy.target_unit;
  }
  for (layout::UnitIndex unit = 0; unit < carry.slices_.size(); ++unit) {
    if (!carry.last_use_[unit]) carry.slices_[unit] = {};
  }
  return carry;
}

Status Carry::fill(layout::UnitIndex unit, std::span<std::byte> slice, layout::DType dtype) {
  const Bytes each = layout::bytes_per_element(dtype);
  for (const auto& copy :
       std::ranges::equal_range(copies_, unit, {}, &layout::ReshardCopy::target_unit)) {
    SHARDLIGHT_TRY_STATUS(move(copy, slice, each));
  }
  for (layout::UnitIndex before = 0; before < slices_.size(); ++before) {
    if (last_use_[before] == unit) slices_[before] = {};
  }
  return {};
}

Status Carry::move(const layout::ReshardCopy& copy, std::span<std::byte> slice, Bytes each) {
  const std::size_t bytes = size_of(each * copy.range.size().value());
  const bool from_here = copy.source == transport_->rank();
  const bool to_here = copy.target == transport_->rank();
  std::span<std::byte> source, target;
  if (from_here) {
    source = slices_[copy.source_unit].bytes().subspan(size_of(each * copy.source_offset.value()),
                                                       bytes);
  }
  if (to_here) target = slice.subspan(size_of(each * copy.target_offset.value()), bytes);
  if (from_here && to_here) {
    std::memcpy(target.data(), source.data(), bytes);
    return {};
  }
  const comm::Deadline deadline(deadline_);
  if (from_here) return transport_->send(source, copy.target, deadline);
  return to_here ? transport_->receive(target, copy.source, deadline) : Status();
}

}  // namespace shardlight::engine
