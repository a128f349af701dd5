// A decorator that takes the time of every call by its kind: how many, how long together, and which
// time half or 99 of 100 of them stayed below. For whole runs: of bounded memory, whatever the
// number of calls, where Tracing keeps each one. Any number of threads may call and read.
#pragma once

#include <array>
#include <atomic>

#include "shardlight/comm/decorators/decorator.h"

namespace shardlight::comm {

// Times by the powers of two they lie between, each cut into 16: a percentile is right to 4.5 %.
class DurationHistogram {
 public:
  void add(std::int64_t nanoseconds);
  std::int64_t count() const { return count_; }
  Seconds total() const { return Seconds(static_cast<double>(nanoseconds_.load()) * 1e-9); }
  // The middle of the bin in which `share` (0 to 1) of all times is reached; 0 without any.
  Seconds percentile(double share) const;

 private:
  static constexpr std::size_t kParts = 16;
  static constexpr std::size_t kBins = 44 * kParts;  // up to about five hours

  std::array<std::atomic<std::int64_t>, kBins> bins_{};
  std::atomic<std::int64_t> count_{0}, nanoseconds_{0};
};

class Timing final : public Decorator {
 public:
  explicit Timing(std::unique_ptr<Transport> inner) : Decorator(std::move(inner)) {}

  const DurationHistogram& times(OperationKind kind) const {
    return times_[static_cast<std::size_t>(kind)];
  }

 protected:
  Status around(const Operation& operation, const Make& make) override;

 private:
  std::array<DurationHistogram, kOperationKinds> times_;
};

}  // namespace shardlight::comm
