// The reduce in shared memory: the steps of reduce_order.h, chunk by chunk.
#include <algorithm>

#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/copy.h"
#include "shardlight/comm/gradient.h"
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
  SHARDLIGHT_TRY_STATUS(check_reduces(units_, unit));
  const UnitSpec& spec = units_[unit];
  SHARDLIGHT_TRY_STATUS(check_gradient(spec, gradient));
  Call call(record(rank_), operation(OperationKind::kReduce, unit, bytes_of(gradient)),
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
  bytes_reduced_ +=
      bytes_outside(gradient, spec.slice_begin(rank_), spec.slices[rank_.value()]).value();
  return {};
}

// The last sum may be overwritten when everybody has read what it needs of it.
Status SharedTransport::await_releases(UnitId unit, std::int64_t round, Call& call) {
  for (std::int64_t reader = 0; reader < world_; ++reader) {
    SHARDLIGHT_TRY_STATUS(await(word(layout_.places(unit).released, reader),
                                static_cast<std::uint32_t>(round), Rank(reader), call));
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

SumSpan SharedTransport::sum(UnitId unit, int buffer, std::int64_t begin,
                             std::int64_t elements) const {
  const UnitSpec& spec = units_[unit];
  const Bytes before = spec.sum_bytes(spec.elements() * buffer + Count(begin));
  return {at<std::byte>(layout_.places(unit).sums) + before.value(), spec.sum_dtype,
          Count(elements)};
}

void SharedTransport::add(const Chunk& chunk, const ReduceStep& step) {
  const auto filled = [&](int buffer) -> std::uint32_t& {
    return at<std::uint32_t>(chunk.places.filled)[buffer * chunk.places.chunks + chunk.index];
  };
  const auto empty = [&](int buffer) {
    const std::uint32_t since = (buffer == kSumBuffer ? chunk.fresh_round : chunk.round) + 1;
    return static_cast<std::int32_t>(filled(buffer) - since) < 0;
  };
  const auto values = [&](int buffer) {
    return sum(chunk.unit, buffer, chunk.begin, chunk.elements);
  };
  const SumSpan target = values(step.target);
  const bool store = empty(step.target);
  if (step.source == kOwnGradient) {
    if (chunk.gradient.parts.empty()) return;
    (store ? store_parts : add_parts)(target, chunk.gradient, chunk.begin);
  } else {
    if (empty(step.source)) return;
    const SumSpan source = values(step.source);
    (store ? store_into : add_into)(target, source.data(), source.dtype());
  }
  filled(step.target) = chunk.round + 1;
}

Status SharedTransport::check_sum(UnitId unit, std::int64_t round) const {
  SHARDLIGHT_TRY_STATUS(check_reduces(units_, unit));
  const Word& released = word(layout_.places(unit).released, rank_.value());
  return check_not_released(round, released.reached(static_cast<std::uint32_t>(round) + 1));
}

Result<bool> SharedTransport::await_sum(UnitId unit, std::int64_t round, std::int64_t begin,
                                        std::int64_t elements, Call& call) {
  const UnitPlaces& places = layout_.places(unit);
  const std::int64_t first = begin / kChunkElements;
  const std::int64_t last = (begin + std::max<std::int64_t>(elements, 1) - 1) / kChunkElements;
  for (std::int64_t i = first; i <= last; ++i) {
    SHARDLIGHT_TRY_STATUS(await(word(places.done, i * world_ + world_ - 1),
                                static_cast<std::uint32_t>(round) + 1, Rank(world_ - 1), call));
  }
  const std::uint32_t since = static_cast<std::uint32_t>(fresh_round_[unit]) + 1;
  const std::uint32_t filled = at<std::uint32_t>(places.filled)[first];
  return static_cast<std::int32_t>(filled - since) >= 0;
}

Result<SumSpan> SharedTransport::reduced(UnitId unit, std::int64_t round, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_sum(unit, round));
  const UnitSpec& spec = units_[unit];
  const std::int64_t begin = spec.slice_begin(rank_).value();
  const std::int64_t elements = spec.slices[rank_.value()].value();
  Call call(record(rank_),
            operation(OperationKind::kReduced, unit, spec.sum_bytes(Count(elements))),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  if (elements == 0) return SumSpan();
  SHARDLIGHT_TRY(const bool any, await_sum(unit, round, begin, elements, call));
  return any ? sum(unit, kSumBuffer, begin, elements) : SumSpan();
}

Result<bool> SharedTransport::gather_reduced(UnitId unit, std::int64_t round, const SumSpan& target,
                                             Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_sum(unit, round));
  const UnitSpec& spec = units_[unit];
  SHARDLIGHT_TRY_STATUS(check_sum_target(spec, target));
  const std::int64_t elements = spec.elements().value();
  const Bytes bytes = spec.sum_bytes(spec.elements());
  Call call(record(rank_), operation(OperationKind::kGatherReduced, unit, bytes),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  SHARDLIGHT_TRY(const bool any, await_sum(unit, round, 0, elements, call));
  if (!any) return false;
  copy_of_unit(target.data(), sum(unit, kSumBuffer, 0, elements).data(), bytes.value(),
               bytes.value());
  bytes_gathered_ += spec.sum_bytes(spec.elements() - spec.slices[rank_.value()]).value();
  return true;
}

Status SharedTransport::release(UnitId unit, std::int64_t round) {
  SHARDLIGHT_TRY_STATUS(check_reduces(units_, unit));
  const Operation what = operation(OperationKind::kRelease, unit, Bytes(0));
  SHARDLIGHT_TRY_STATUS(check_alive(what));
  word(layout_.places(unit).released, rank_.value()).store(static_cast<std::uint32_t>(round) + 1);
  return {};
}

}  // namespace shardlight::comm
