// Time as a dependency: what measures or waits takes a Clock, and tests give it one they move by
// hand. Both clocks may be read from any thread.
// Not for dates: a clock here has no epoch.
#pragma once

#include <atomic>
#include <chrono>

namespace shardlight {

class Clock {
 public:
  using Duration = std::chrono::nanoseconds;

  virtual ~Clock() = default;
  // Time since a fixed but unspecified moment; never goes back.
  virtual Duration now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

class ManualClock final : public Clock {
 public:
  Duration now() const override { return Duration(now_nanoseconds_.load()); }
  void advance(Duration by) { now_nanoseconds_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_nanoseconds_{0};
};

}  // namespace shardlight
