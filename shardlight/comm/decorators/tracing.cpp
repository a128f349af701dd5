#include "shardlight/comm/decorators/tracing.h"

#include <algorithm>

#include "shardlight/base/arithmetic.h"

namespace shardlight::comm {

Status Tracing::around(const Operation& operation, const Make& make) {
  const Clock::Duration begin = clock_.now() - begin_;
  Status done = make();
  const Clock::Duration end = clock_.now() - begin_;
  const std::scoped_lock lock(mutex_);
  const auto kind = static_cast<std::size_t>(operation.kind);
  ++calls_.at(kind);
  total_.at(kind) += end - begin;
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
  OperationSeconds seconds;
  {
    const std::scoped_lock lock(mutex_);
    seconds.calls = calls_.at(static_cast<std::size_t>(kind));
    seconds.total = total_.at(static_cast<std::size_t>(kind));
    for (const OperationSpan& span : spans_) {
      if (span.operation.kind == kind) took.push_back(span.took());
    }
  }
  if (took.empty()) return seconds;
  std::sort(took.begin(), took.end());
  const auto kept = static_cast<std::int64_t>(took.size());
  const auto quantile = [&](std::int64_t percent) {
    return took[static_cast<std::size_t>(divide_up(kept * percent, std::int64_t{100}) - 1)];
  };
  seconds.p50 = quantile(50);
  seconds.p99 = quantile(99);
  seconds.longest = took.back();
  return seconds;
}

}  // namespace shardlight::comm
