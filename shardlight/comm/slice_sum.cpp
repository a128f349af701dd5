#include "shardlight/comm/slice_sum.h"

#include <algorithm>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/gradient.h"
#include "shardlight/comm/sum.h"

namespace shardlight::comm {

SliceSum::SliceSum(const UnitSpec& unit, Rank owner, Count chunk_elements)
    : world_(static_cast<std::int64_t>(unit.slices.size())),
      dtype_(unit.sum_dtype),
      elements_(unit.slices[static_cast<std::size_t>(owner.value())]),
      chunk_(chunk_elements),
      sum_(memory_for(elements_)) {
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    steps_.push_back(reduce_steps(unit.order, world_, Rank(rank)));
  }
  // Of nothing too there is to say whether anybody had a gradient.
  const std::int64_t some = std::max<std::int64_t>(elements_.value(), 1);
  const auto chunks = static_cast<std::size_t>(divide_up(some, chunk_elements.value()));
  turns_.assign(chunks, 0);
  filled_.assign(chunks, false);
  partials_.resize(chunks);
  chunks_open_ = static_cast<std::int64_t>(chunks);
}

Count SliceSum::chunk_size(std::int64_t chunk) const {
  return std::min(chunk_, elements_ - chunk_begin(chunk));
}

SliceSum::Memory SliceSum::memory_for(Count elements) const {
  return Memory(
      static_cast<std::size_t>((layout::bytes_per_element(dtype_) * elements.value()).value()));
}

SumSpan SliceSum::span_of(Memory& values) const {
  const auto bytes = static_cast<std::int64_t>(values.size());
  return {values.data(), dtype_, Count(bytes / layout::bytes_per_element(dtype_).value())};
}

void SliceSum::begin_round(bool fresh) {
  std::fill(turns_.begin(), turns_.end(), 0);
  if (fresh) std::fill(filled_.begin(), filled_.end(), false);
  chunks_open_ = chunks();
}

void SliceSum::add(std::int64_t chunk, const Gradient& gradient, bool passes) {
  std::int64_t& turn = turns_[static_cast<std::size_t>(chunk)];
  for (const ReduceStep& step : steps_[static_cast<std::size_t>(turn)]) {
    add_step(chunk, step, gradient, passes);
  }
  if (++turn == world_) --chunks_open_;
}

void SliceSum::add_step(std::int64_t chunk, const ReduceStep& step, const Gradient& gradient,
                        bool passes) {
  const auto index = static_cast<std::size_t>(chunk);
  auto& partials = partials_[index];
  const bool own = step.source == kOwnGradient;
  const auto source = own ? partials.end() : partials.find(step.source);
  if (own ? passes : source == partials.end()) return;
  bool store = false;
  SumSpan target;
  if (step.target == kSumBuffer) {
    store = !filled_[index];
    filled_[index] = true;
    target = sum().part(chunk_begin(chunk), chunk_size(chunk));
  } else {
    const auto [found, made] = partials.try_emplace(step.target);
    if (made) found->second = memory_for(chunk_size(chunk));
    store = made;
    target = span_of(found->second);
  }
  if (own) {
    (store ? store_parts : add_parts)(target, gradient, chunk_begin(chunk).value());
    return;
  }
  (store ? store_into : add_into)(target, source->second.data(), dtype_);
  partials.erase(source);
}

}  // namespace shardlight::comm
