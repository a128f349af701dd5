#include "shardlight/engine/use_trace.h"

#include <algorithm>

namespace shardlight::engine {

bool UseTrace::use(layout::UnitIndex unit) {
  if (!recorded_.empty() && recorded_.back() == unit) return false;
  recorded_.push_back(unit);
  if (foreseen_.empty()) return true;
  // Where it comes later than foreseen, what lies between was skipped.
  const auto found = distance(unit);
  if (found != 0) ++unforeseen_;
  if (found) position_ += *found + 1;
  return true;
}

void UseTrace::end_micro_step() {
  foreseen_.swap(recorded_);
  recorded_.clear();
  position_ = 0;
  for (auto& uses : uses_of_) uses.clear();
  for (std::size_t i = 0; i < foreseen_.size(); ++i) uses_of_[foreseen_[i]].push_back(i);
}

std::span<const layout::UnitIndex> UseTrace::ahead() const {
  return std::span(foreseen_).subspan(std::min(position_, foreseen_.size()));
}

std::optional<std::size_t> UseTrace::distance(layout::UnitIndex unit) const {
  const auto& uses = uses_of_[unit];
  const auto next = std::ranges::lower_bound(uses, position_);
  if (next == uses.end()) return std::nullopt;
  return *next - position_;
}

}  // namespace shardlight::engine
