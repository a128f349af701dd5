// Reducing: each rank sends an owner what its gradient holds of the owner's slice, chunk by chunk,
// and the owner adds it up by rank. What each rank has is known from the headers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/gradient.h"
#include "shardlight/comm/gradient_parts.h"
#include "shardlight/engine/c10d/c10d_transport.h"

namespace shardlight::engine {

using comm::Deadline;
using comm::Gradient;
using comm::GradientPart;
using comm::OperationKind;
using comm::UnitId;
using comm::UnitSpec;

namespace {

// A chunk of the owner's slice, in elements of the unit.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Stretch stretch_of(const UnitSpec& unit, std::size_t owner, std::int64_t chunk,
                   std::int64_t chunk_elements) {
  const std::int64_t begin = unit.slice_begin(Rank(static_cast<std::int64_t>(owner))).value();
  const std::int64_t slice = unit.slices[owner].value();
  return {begin + std::min(slice, chunk * chunk_elements),
          begin + std::min(slice, (chunk + 1) * chunk_elements)};
}

layout::DType dtype_of(const CallHeader& header) {
  return static_cast<layout::DType>(header.dtype);
}

std::int64_t bytes_within(const std::vector<GradientPart>& parts, const Stretch& stretch,
                          layout::DType dtype) {
  return (layout::bytes_per_element(dtype) *
          comm::elements_within(parts, stretch.begin, stretch.end))
      .value();
}

}  // namespace

Status C10dTransport::check_sum(UnitId unit, std::int64_t round) const {
  SHARDLIGHT_TRY_STATUS(comm::check_reduces(units_, unit));
  const Owned& owned = owned_[unit];
  SHARDLIGHT_TRY_STATUS(comm::check_not_released(round, owned.released > round));
  if (owned.rounds <= round) {
    return user_error("round", fmt::to_string(round),
                      fmt::format("below {}, one that this rank has reduced", owned.rounds));
  }
  return {};
}

Status C10dTransport::reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                             Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_reduces(units_, unit));
  SHARDLIGHT_TRY_STATUS(comm::check_gradient(units_[unit], gradient));
  const std::scoped_lock lock(calls_mutex_);
  Owned& owned = owned_[unit];
  if (fresh && owned.released < owned.rounds) {
    return user_error("fresh", "true", "a release of the unit's last sum before, on each rank");
  }
  CallHeader header;
  header.unit = static_cast<std::uint32_t>(unit + 1);
  header.version = round;
  header.fresh = fresh ? 1 : 0;
  header.dtype = static_cast<std::uint8_t>(gradient.dtype);
  Collective call = collective(operation(OperationKind::kReduce, unit, comm::bytes_of(gradient)),
                               deadline, header);
  SHARDLIGHT_TRY_STATUS(begin(call, comm::packed_parts(gradient.parts)));
  Parts parts;
  if (fresh) owned.filled = false;
  for (const auto& numbers : call.numbers) {
    parts.push_back(comm::unpacked_parts(numbers));
    owned.filled = owned.filled || !numbers.empty();
  }
  owned.sum->begin_round(fresh);
  const Count longest = *std::ranges::max_element(units_[unit].slices);
  const std::int64_t chunks =
      std::max<std::int64_t>(divide_up(longest.value(), chunk_elements_), 1);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    SHARDLIGHT_TRY_STATUS(exchange_gradients(call, unit, parts, gradient, chunk));
    if (chunk < owned.sum->chunks()) add_gradients(call, unit, parts, gradient, chunk);
  }
  owned.rounds = round + 1;
  return {};
}

// What comes stays where the group has put it, by rank.
Status C10dTransport::exchange_gradients(const Collective& call, UnitId unit, const Parts& parts,
                                         const Gradient& gradient, std::int64_t chunk) {
  const UnitSpec& spec = units_[unit];
  const auto self = static_cast<std::size_t>(rank().value());
  Sizes sizes;
  bool any = false;
  std::byte* out = group_.out();
  for (std::size_t other = 0; other < parts.size(); ++other) {
    const Stretch theirs = stretch_of(spec, other, chunk, chunk_elements_);
    const Stretch mine = stretch_of(spec, self, chunk, chunk_elements_);
    std::int64_t filled = 0;
    if (other != self) {
      comm::each_within(
          gradient.parts, theirs.begin, theirs.end, gradient.dtype, [&](const GradientPart& part) {
            const std::int64_t bytes =
                (layout::bytes_per_element(gradient.dtype) * part.elements.value()).value();
            std::memcpy(out + filled, part.data, static_cast<std::size_t>(bytes));
            filled += bytes;
          });
    }
    out += filled;
    bytes_reduced_ += filled;
    sizes.out.push_back(filled);
    sizes.in.push_back(
        other == self ? 0 : bytes_within(parts[other], mine, dtype_of(call.headers[other])));
    // Between any two ranks, so that all come to the same verdict.
    for (std::size_t owner = 0; owner < parts.size(); ++owner) {
      const Stretch stretch = stretch_of(spec, owner, chunk, chunk_elements_);
      any = any ||
            (owner != other && comm::elements_within(parts[other], stretch.begin, stretch.end) > 0);
    }
  }
  if (!any) return {};
  return settled(call.operation, group_.exchange(sizes, call.call));
}

void C10dTransport::add_gradients(const Collective& call, UnitId unit, const Parts& parts,
                                  const Gradient& gradient, std::int64_t chunk) {
  const UnitSpec& spec = units_[unit];
  const auto self = static_cast<std::size_t>(rank().value());
  const Stretch mine = stretch_of(spec, self, chunk, chunk_elements_);
  const std::int64_t slice = spec.slice_begin(rank()).value();
  const std::byte* in = group_.in();
  for (std::size_t other = 0; other < parts.size(); ++other) {
    const bool own = other == self;
    const layout::DType dtype = own ? gradient.dtype : dtype_of(call.headers[other]);
    std::vector<GradientPart> within =
        comm::parts_within(own ? gradient.parts : std::span<const GradientPart>(parts[other]),
                           mine.begin, mine.end, dtype);
    if (!own) {
      comm::point_into(within, dtype, in);
      in += bytes_within(parts[other], mine, dtype);
    }
    for (GradientPart& part : within) part.begin += Count(mine.begin - slice);
    owned_[unit].sum->add(chunk, {.parts = within, .dtype = dtype}, call.numbers[other].empty());
  }
}

Result<comm::SumSpan> C10dTransport::reduced(UnitId unit, std::int64_t round,
                                             Deadline /*deadline*/) {
  SHARDLIGHT_TRY_STATUS(comm::check_reduces(units_, unit));
  const UnitSpec& spec = units_[unit];
  const Bytes own = spec.sum_bytes(spec.slices[static_cast<std::size_t>(rank().value())]);
  SHARDLIGHT_TRY_STATUS(check_alive(operation(OperationKind::kReduced, unit, own)));
  const std::scoped_lock lock(calls_mutex_);
  SHARDLIGHT_TRY_STATUS(check_sum(unit, round));
  return owned_[unit].filled ? owned_[unit].sum->sum() : comm::SumSpan();
}

Result<bool> C10dTransport::gather_reduced(UnitId unit, std::int64_t round,
                                           const comm::SumSpan& target, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_reduces(units_, unit));
  SHARDLIGHT_TRY_STATUS(comm::check_sum_target(units_[unit], target));
  const UnitSpec& spec = units_[unit];
  const std::scoped_lock lock(calls_mutex_);
  SHARDLIGHT_TRY_STATUS(check_sum(unit, round));
  CallHeader header;
  header.unit = static_cast<std::uint32_t>(unit + 1);
  header.version = round;
  Collective call =
      collective(operation(OperationKind::kGatherReduced, unit, spec.sum_bytes(spec.elements())),
                 deadline, header);
  SHARDLIGHT_TRY_STATUS(begin(call));
  if (!owned_[unit].filled) return false;
  SHARDLIGHT_TRY_STATUS(share_slices(call, unit, owned_[unit].sum->sum().bytes(), target.bytes(),
                                     layout::bytes_per_element(spec.sum_dtype).value()));
  return true;
}

Status C10dTransport::release(UnitId unit, std::int64_t round) {
  SHARDLIGHT_TRY_STATUS(comm::check_reduces(units_, unit));
  SHARDLIGHT_TRY_STATUS(check_alive(operation(OperationKind::kRelease, unit, Bytes(0))));
  const std::scoped_lock lock(calls_mutex_);
  owned_[unit].released = round + 1;
  return {};
}

}  // namespace shardlight::engine
