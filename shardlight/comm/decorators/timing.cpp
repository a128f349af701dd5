#include "shardlight/comm/decorators/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace shardlight::comm {
void DurationHistogram::add(std::int64_t nanoseconds) {
  const double octave = std::log2(static_cast<double>(std::max<std::int64_t>(1, nanoseconds)));
  const auto bin = static_cast<std::size_t>(octave * kParts);
  ++bins_[std::min(bin, kBins - 1)];
  ++count_;
  nanoseconds_ += nanoseconds;
}

Seconds DurationHistogram::percentile(double share) const {
  const double wanted = share * static_cast<double>(count_.load());
  double reached = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const auto here = static_cast<double>(bins_[bin].load());
    reached += here;
    if (here > 0 && reached >= wanted) {
      return Seconds(std::exp2((static_cast<double>(bin) + 0.5) / kParts) * 1e-9);
    }
  }
  return Seconds(0);
}

Status Timing::around(const Operation& operation, const Make& make) {
  const auto begin = std::chrono::steady_clock::now();
  Status done = make();
  const auto took = std::chrono::steady_clock::now() - begin;
  if (done) {
    times_[static_cast<std::size_t>(operation.kind)].add(
        std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }
  return done;
}

}  // namespace shardlight::comm
