#include "shardlight/comm/decorators/tracing.h"

#include <algorithm>
#include <numeric>

#include "shardlight/base/arithmetic.h"

namespace shardlight::comm {

Status Tracing::around(const Operation& operation, const Make& make) {
  const Clock::Duration begin = clock_.now() - begin_;
  Status done = make();
  const Clock::Duration end = clock_.now() - begin_;
  const std::scoped_lock lock(mutex_);
  if (spans_.size() < most_spans_) {
    spans_.push_back(
        {.operation = operation, .begin = begin, .end = end, .done = done.has_value()});
  } else {
    ++left_out_;
  }
  return done;
}

std::vector<OperationSpan> Tracing::spans() const {
  const std::scoped_lock lock(mutex_);
  return spans_;
}

std::int64_t Tracing::spans_left_out() const {
  const std::scoped_lock lock(mutex_);
  return left_out_;
}

OperationSeconds Tracing::seconds(OperationKind kind) const {
  std::vector<Seconds> took;
  {
    const std::scoped_lock lock(mutex_);
    for (const OperationSpan& span : spans_) {
      if (span.operation.kind == kind) took.push_back(span.took());
    }
  }
  if (took.empty()) return {};
  std::sort(took.begin(), took.end());
  const auto calls = static_cast<std::int64_t>(took.size());
  const auto quantile = [&](std::int64_t percent) {
    return took[static_cast<std::size_t>(divide_up(calls * percent, std::int64_t{100}) - 1)];
  };
  return {.calls = calls,
          .total = std::accumulate(took.begin(), took.end(), Seconds(0)),
          .p50 = quantile(50),
          .p99 = quantile(99),
          .longest = took.back()};
}

}  // namespace shardlight::comm
