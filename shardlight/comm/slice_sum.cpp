#include "shardlight/comm/slice_sum.h"

#include <algorithm>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/gradient.h"
#include "shardlight/comm/sum.h"

namespace shardlight::comm {

SliceSum::SliceSum(const ReduceOrder& order, std::int64_t world, Count elements,
                   Count chunk_elements)
    : world_(world), chunk_(chunk_elements), sum_(static_cast<std::size_t>(elements.value())) {
  for (std::int64_t rank = 0; rank < world; ++rank) {
    steps_.push_back(reduce_steps(order, world, Rank(rank)));
  }
  // Of nothing too there is to say whether anybody had a gradient.
  const std::int64_t some = std::max<std::int64_t>(elements.value(), 1);
  const auto chunks = static_cast<std::size_t>(divide_up(some, chunk_elements.value()));
  turns_.assign(chunks, 0);
  filled_.assign(chunks, false);
  partials_.resize(chunks);
  chunks_open_ = static_cast<std::int64_t>(chunks);
}

Count SliceSum::chunk_size(std::int64_t chunk) const {
  const Count all(static_cast<std::int64_t>(sum_.size()));
  return std::min(chunk_, all - chunk_begin(chunk));
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
  const std::int64_t begin = chunk_begin(chunk).value();
  const std::int64_t elements = chunk_size(chunk).value();
  bool store = false;
  float* target = nullptr;
  if (step.target == kSumBuffer) {
    store = !filled_[index];
    filled_[index] = true;
    target = sum_.data() + begin;
  } else {
    const auto [found, made] = partials.try_emplace(step.target);
    if (made) found->second.resize(static_cast<std::size_t>(elements));
    store = made;
    target = found->second.data();
  }
  if (own) {
    (store ? store_parts : add_parts)(target, gradient, begin, elements);
    return;
  }
  (store ? store_as_float : add_as_float)(target, source->second.data(), layout::DType::kFloat32,
                                          elements);
  partials.erase(source);
}

}  // namespace shardlight::comm
