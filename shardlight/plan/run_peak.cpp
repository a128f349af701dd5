#include "shardlight/plan/run_peak.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>

namespace shardlight::plan {
namespace {

using Units = std::vector<layout::Unit>;

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kArenaGrain = 64;  // memory::Arena's

// As the engine resolves the setting (engine/model_layout.cpp).
bool reduces_once(const RunMemory& run) {
  if (run.accumulation == 1) return false;
  if (run.reproducible || run.reduce == ReduceSetting::kOnce) return true;
  return run.reduce == ReduceSetting::kDefault && !run.placements.gradients.sharded();
}

bool keeps_local(const RunMemory& run) {
  return !run.placements.gradients.sharded() || reduces_once(run);
}

Bytes bytes_of(Count elements) { return Bytes(elements.value() * kFloatBytes); }

Bytes gathered(const Units& units, const RunMemory& run) {
  if (!run.placements.parameters.sharded() || run.shared_units) return Bytes(0);
  std::vector<Bytes> sizes;
  Bytes all;
  for (const layout::Unit& unit : units) {
    sizes.push_back(unit.bytes());
    all += unit.bytes();
  }
  std::ranges::sort(sizes, std::greater());
  Bytes two_largest;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, sizes.size()); ++i) two_largest += sizes[i];
  const std::int64_t cap = std::min(all, run.gathered_bytes.value_or(two_largest)).value();
  return Bytes((cap + kArenaGrain - 1) / kArenaGrain * kArenaGrain);
}

// Of all elements: a rank's sum and the order's partial ones, and what it keeps before they are
// added: one copy, or one for each level of a tree.
Bytes gradients(const Units& units, const RunMemory& run) {
  Bytes bytes;
  const bool once = reduces_once(run);
  const auto micro_steps = static_cast<std::uint64_t>(once ? run.accumulation : 1);
  const std::int64_t levels =
      run.reproducible && once ? static_cast<std::int64_t>(std::bit_width(micro_steps)) : 1;
  for (const layout::Unit& unit : units) {
    const Count slice = layout::slice_elements(unit.elements, run.ranks);
    bytes += bytes_of(Count(slice.value() * (1 + run.partial_sums)));
    if (keeps_local(run)) bytes += bytes_of(Count(unit.elements.value() * levels));
  }
  return bytes;
}

// Values, and torch's count of steps of every piece of a parameter.
Result<Bytes> optimizer(const Units& units, const RunMemory& run) {
  SHARDLIGHT_TRY(const auto slices,
                 layout::SliceTable::create(units, run.placements.optimizer, run.ranks));
  Bytes bytes;
  for (layout::UnitIndex unit = 0; unit < units.size(); ++unit) {
    bytes += bytes_of(slices.slice(unit, Rank(0)).size()) * run.optimizer_states;
    bytes += Bytes(static_cast<std::int64_t>(slices.rows_of(unit, Rank(0)).size()) * kFloatBytes);
  }
  return bytes;
}

// Goes through a micro-step's events as the engine would.
class Passing {
 public:
  Passing(const Units& units, const RunMemory& run) : units_(&units), run_(&run) {
    left_.resize(units.size());
    waiting_.resize(units.size());
    for (layout::UnitIndex index = 0; index < units.size(); ++index) {
      left_[index] = units[index].parameters.size();
      for (const auto& placed : units[index].parameters) {
        unit_of_.resize(std::max(unit_of_.size(), placed.parameter + 1));
        unit_of_[placed.parameter] = index;
      }
    }
  }

  Bytes peak(std::span<const StepEvent> events) {
    for (const StepEvent& event : events) {
      switch (event.kind) {
        case StepEventKind::kTake:
          now_ += event.bytes;
          peak_ = std::max(peak_, now_);
          break;
        case StepEventKind::kGive:
          now_ = now_ - event.bytes;
          break;
        case StepEventKind::kGradient:
          arrive(event);
      }
    }
    return peak_;
  }

 private:
  struct InFlight {
    Bytes unit, gradients;
  };

  void arrive(const StepEvent& event) {
    if (keeps_local(*run_)) {
      now_ = now_ - event.bytes;
      return;
    }
    const layout::UnitIndex unit = unit_of_[event.parameter];
    waiting_[unit] += event.bytes;
    if (--left_[unit] > 0) return;
    in_flight_.push_back({.unit = (*units_)[unit].bytes(), .gradients = waiting_[unit]});
    in_flight_bytes_ += in_flight_.back().unit;
    while (in_flight_bytes_ > run_->bucket_bytes) {
      now_ = now_ - in_flight_.front().gradients;
      in_flight_bytes_ = in_flight_bytes_ - in_flight_.front().unit;
      in_flight_.pop_front();
    }
  }

  const Units* units_;
  const RunMemory* run_;
  std::vector<layout::UnitIndex> unit_of_;  // by parameter
  std::vector<std::size_t> left_;           // by unit: gradients that have not come
  std::vector<Bytes> waiting_;              // by unit
  std::deque<InFlight> in_flight_;
  Bytes in_flight_bytes_, now_, peak_;
};

}  // namespace

Result<RunPeak> run_peak(const Units& units, const RunMemory& run, const GptStep& step) {
  SHARDLIGHT_TRY(const auto events, gpt_step(step));
  RunPeak peak{.parameters = {},
               .gathered = gathered(units, run),
               .gradients = gradients(units, run),
               .optimizer = {},
               .passing = Passing(units, run).peak(events)};
  SHARDLIGHT_TRY(peak.optimizer, optimizer(units, run));
  for (const layout::Unit& unit : units) {
    peak.parameters +=
        bytes_of(layout::slice_elements(unit.elements, run.placements.parameters.ways));
  }
  return peak;
}

}  // namespace shardlight::plan
