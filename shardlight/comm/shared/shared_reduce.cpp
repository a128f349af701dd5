// The reduce in shared memory: the steps of reduce_order.h, chunk by chunk.
#include <fmt/format.h>

#include <algorithm>

#include "shardlight/comm/shared/shared_call.h"
#include "shardlight/comm/sum.h"

namespace shardlight::comm {

// What one rank does to one chunk of one unit in one round.
struct SharedTransport::Chunk {
  UnitId unit = 0;
  const UnitPlaces& places;
  std::int64_t index = 0;
  std::int64_t begin = 0;  // in the unit
  std::int64_t elements = 0;
  std::uint32_t round = 0;        // of this reduce
  std::uint32_t fresh_round = 0;  // in which the sum started anew
  Gradient gradient;
};

Status SharedTransport::reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                               Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_unit(unit));
  const UnitSpec& spec = units_[unit];
  if (!spec.reduces) return user_error("unit", spec.name, "a unit that reduces");
  if (gradient.data != nullptr && !can_reduce(gradient.dtype)) {
    return user_error("gradient.dtype", std::string(layout::torch_name(gradient.dtype)),
                      "float32, float16 or bfloat16");
  }
  const Bytes bytes(layout::bytes_per_element(gradient.dtype).value() * spec.elements().value());
  Call call(record(rank_), operation(OperationKind::kReduce, unit, bytes),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  if (fresh) fresh_round_[unit] = round;
  if (fresh && round > 0) SHARDLIGHT_TRY_STATUS(await_releases(unit, round, call));
  const UnitPlaces& places = layout_.places(unit);
  for (std::int64_t i = 0; i < places.chunks; ++i) {
    const std::int64_t begin = i * kChunkElements;
    SHARDLIGHT_TRY_STATUS(
        reduce_chunk({.unit = unit,
                      .places = places,
                      .index = i,
                      .begin = begin,
                      .elements = std::min(kChunkElements, spec.elements().value() - begin),
                      .round = static_cast<std::uint32_t>(round),
                      .fresh_round = static_cast<std::uint32_t>(fresh_round_[unit]),
                      .gradient = gradient},
                     call));
  }
  if (gradient.data != nullptr) {
    const std::int64_t own = spec.slices[rank_.value()].value();
    bytes_reduced_ +=
        layout::bytes_per_element(gradient.dtype).value() * (spec.elements().value() - own);
  }
  return {};
}

// The sum of the last round may be overwritten when its owners have used it.
Status SharedTransport::await_releases(UnitId unit, std::int64_t round, Call& call) {
  const UnitSpec& spec = units_[unit];
  for (std::int64_t owner = 0; owner < world_; ++owner) {
    if (spec.slices[owner] == Count(0)) continue;
    SHARDLIGHT_TRY_STATUS(await(word(layout_.places(unit).released, owner),
                                static_cast<std::uint32_t>(round), Rank(owner), call));
  }
  return {};
}

Status SharedTransport::reduce_chunk(const Chunk& chunk, Call& call) {
  const auto done = [&](std::int64_t rank) -> Word& {
    return word(chunk.places.done, chunk.index * world_ + rank);
  };
  for (const ReduceStep& step : steps_[chunk.unit]) {
    // Whoever waits for nobody in this round waits until the last one was complete; its last rank
    // is the last to be done in every order.
    const bool nobody = step.after == ReduceStep::kNobody;
    const std::int64_t whom = nobody ? world_ - 1 : step.after;
    const std::uint32_t wanted = nobody ? chunk.round : chunk.round + 1;
    SHARDLIGHT_TRY_STATUS(await(done(whom), wanted, Rank(whom), call));
    add(chunk, step);
  }
  done(rank_.value()).store(chunk.round + 1);
  return {};
}

void SharedTransport::add(const Chunk& chunk, const ReduceStep& step) {
  const std::int64_t unit_elements = units_[chunk.unit].elements().value();
  const auto filled = [&](int buffer) -> std::uint32_t& {
    return at<std::uint32_t>(chunk.places.filled)[buffer * chunk.places.chunks + chunk.index];
  };
  const auto empty = [&](int buffer) {
    const std::uint32_t since = (buffer == kSumBuffer ? chunk.fresh_round : chunk.round) + 1;
    return static_cast<std::int32_t>(filled(buffer) - since) < 0;
  };
  const auto floats = [&](int buffer) {
    return at<float>(chunk.places.sums) + buffer * unit_elements + chunk.begin;
  };
  const bool own = step.source == kOwnGradient;
  if (own ? chunk.gradient.data == nullptr : empty(step.source)) return;
  const layout::DType dtype = own ? chunk.gradient.dtype : layout::DType::kFloat32;
  const void* source = own ? static_cast<const std::byte*>(chunk.gradient.data) +
                                 chunk.begin * layout::bytes_per_element(dtype).value()
                           : static_cast<const void*>(floats(step.source));
  if (empty(step.target)) {
    store_as_float(floats(step.target), source, dtype, chunk.elements);
  } else {
    add_as_float(floats(step.target), source, dtype, chunk.elements);
  }
  filled(step.target) = chunk.round + 1;
}

Result<std::span<float>> SharedTransport::reduced(UnitId unit, std::int64_t round,
                                                  Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_unit(unit));
  const UnitSpec& spec = units_[unit];
  if (!spec.reduces) return user_error("unit", spec.name, "a unit that reduces");
  const std::int64_t begin = spec.slice_begin(rank_).value();
  const std::int64_t elements = spec.slices[rank_.value()].value();
  Call call(record(rank_), operation(OperationKind::kReduced, unit, Bytes(4 * elements)),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  if (elements == 0) return std::span<float>();
  const UnitPlaces& places = layout_.places(unit);
  const std::int64_t first = begin / kChunkElements;
  for (std::int64_t i = first; i <= (begin + elements - 1) / kChunkElements; ++i) {
    SHARDLIGHT_TRY_STATUS(await(word(places.done, i * world_ + world_ - 1),
                                static_cast<std::uint32_t>(round) + 1, Rank(world_ - 1), call));
  }
  const std::uint32_t since = static_cast<std::uint32_t>(fresh_round_[unit]) + 1;
  const std::uint32_t filled = at<std::uint32_t>(places.filled)[first];
  if (static_cast<std::int32_t>(filled - since) < 0) return std::span<float>();
  return std::span<float>(at<float>(places.sums) + begin, static_cast<std::size_t>(elements));
}

Status SharedTransport::release(UnitId unit, std::int64_t round) {
  SHARDLIGHT_TRY_STATUS(check_unit(unit));
  const Operation what = operation(OperationKind::kRelease, unit, Bytes(0));
  SHARDLIGHT_TRY_STATUS(check_alive(what));
  word(layout_.places(unit).released, rank_.value()).store(static_cast<std::uint32_t>(round) + 1);
  return {};
}

}  // namespace shardlight::comm
