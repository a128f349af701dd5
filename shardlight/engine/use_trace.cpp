#include "shardlight/engine/use_trace.h"

#include <algorithm>
#include <utility>

namespace shardlight::engine {

bool UseTrace::use(layout::UnitIndex unit) {
  if (!recorded_.empty() && recorded_.back() == unit) return false;
  recorded_.push_back(unit);
  if (!foreseen_) return true;
  const auto found = distance(unit);
  if (found != 0) {
    ++unforeseen_;
    if (const auto other = way_as_recorded()) {
      foreseen_ = other;
      position_ = recorded_.size();
      return true;
    }
  }
  // Where it comes later than foreseen, what lies between was skipped.
  if (found) position_ += *found + 1;
  return true;
}

// The one that was gone last.
std::optional<std::size_t> UseTrace::way_as_recorded() const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const auto& uses = ways_[i].uses;
    if (uses.size() < recorded_.size()) continue;
    if (!std::equal(recorded_.begin(), recorded_.end(), uses.begin())) continue;
    if (!found || ways_[i].gone > ways_[*found].gone) found = i;
  }
  return found;
}

void UseTrace::end_micro_step() {
  ++micro_steps_;
  const std::size_t gone = learn(std::exchange(recorded_, {}));
  ways_[gone].gone = micro_steps_;
  if (last_) ways_[*last_].followed_by = gone;
  last_ = gone;
  foreseen_ = ways_[gone].followed_by.value_or(gone);
  position_ = 0;
}

// Where it is kept; a new one takes the place of the oldest.
std::size_t UseTrace::learn(std::vector<layout::UnitIndex> uses) {
  const auto known = std::ranges::find(ways_, uses, &Way::uses);
  if (known != ways_.end()) return static_cast<std::size_t>(known - ways_.begin());
  if (ways_.size() < kWays) ways_.emplace_back();
  const auto place =
      static_cast<std::size_t>(std::ranges::min_element(ways_, {}, &Way::gone) - ways_.begin());
  for (Way& way : ways_) {
    if (way.followed_by == place) way.followed_by.reset();
  }
  Way& way = ways_[place];
  way = {.uses = std::move(uses)};
  way.uses_of.resize(units_);
  for (std::size_t i = 0; i < way.uses.size(); ++i) way.uses_of[way.uses[i]].push_back(i);
  return place;
}

std::span<const layout::UnitIndex> UseTrace::ahead() const {
  if (!foreseen_) return {};
  const std::span<const layout::UnitIndex> uses = ways_[*foreseen_].uses;
  return uses.subspan(std::min(position_, uses.size()));
}

std::optional<std::size_t> UseTrace::distance(layout::UnitIndex unit) const {
  if (!foreseen_) return std::nullopt;
  const auto& uses = ways_[*foreseen_].uses_of[unit];
  const auto next = std::ranges::lower_bound(uses, position_);
  if (next == uses.end()) return std::nullopt;
  return *next - position_;
}

}  // namespace shardlight::engine
