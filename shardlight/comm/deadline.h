// When a wait gives up. Every call of an exchange has one, end to end: it does not start anew when
// the call waits for the next thing. A value.
#pragma once

#include <chrono>

#include "shardlight/base/quantity.h"

namespace shardlight::comm {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `limit` from now; more than 0.
  explicit Deadline(Seconds limit)
      : limit_(limit), end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(limit)) {}

  Seconds limit() const { return limit_; }
  Seconds left() const { return end_ - Clock::now(); }
  bool passed() const { return Clock::now() >= end_; }

 private:
  Seconds limit_;
  Clock::time_point end_;
};

}  // namespace shardlight::comm
