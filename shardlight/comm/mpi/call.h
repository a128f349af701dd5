// One call of a transport while it runs: the calling thread makes it, hands it to the communication
// thread and sleeps in wait() until that has called finish(); all else belongs to the communication
// thread, which also sees to the deadline. So no memory of a caller is touched once its call has
// ended. Internal to comm/mpi.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

inline Deadline::Clock::time_point time_after(Deadline::Clock::time_point time, Seconds seconds) {
  return time + std::chrono::duration_cast<Deadline::Clock::duration>(seconds);
}

// Memory of a caller that others are sent; null when its call has ended.
struct Lent {
  const std::byte* data = nullptr;
};

class Call {
 public:
  using Clock = Deadline::Clock;

  // `unit` is the index + 1, or 0.
  Call(Operation operation, std::uint32_t unit, Deadline deadline)
      : operation_(std::move(operation)),
        unit_(unit),
        deadline_(deadline),
        since_(Clock::now()),
        lane_(lane_of_this_thread()),
        urgent_(deadline.left() < kShortestWait) {}

  Status wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return over_; });
    return std::move(status_);
  }
  // The communication thread's last touch.
  void finish(Status status) {
    if (lent) lent->data = nullptr;
    const std::scoped_lock lock(mutex_);
    status_ = std::move(status);
    over_ = true;
    ended_.notify_one();
  }

  const Operation& operation() const { return operation_; }
  std::uint32_t unit() const { return unit_; }
  const Deadline& deadline() const { return deadline_; }
  Clock::time_point since() const { return since_; }
  const std::string& lane() const { return lane_; }
  // No message is as fast as that: the call only asks whether what it waits for is there.
  bool urgent() const { return urgent_; }
  // Whether it is to give up; an urgent one does only when it has been told that it must wait, or
  // is not answered.
  bool late() const {
    if (urgent_ && !must_wait) return Clock::now() - since_ >= kAnswerWait;
    return deadline_.passed();
  }

  void done_with(Rank rank) {
    const auto found = std::find(awaited.begin(), awaited.end(), rank);
    if (found != awaited.end()) awaited.erase(found);
  }

  std::vector<Rank> awaited = {};  // a rank stands here once for each thing it still has to do
  bool must_wait = false;
  std::int64_t collective = 0;  // of a barrier or all-reduce: its number, from 1 on
  bool empty = false;           // the sum has no gradient
  std::shared_ptr<Lent> lent = nullptr;

 private:
  static constexpr Seconds kShortestWait{0.01};
  static constexpr Seconds kAnswerWait{5};

  Operation operation_;
  std::uint32_t unit_;
  Deadline deadline_;
  Clock::time_point since_;
  std::string lane_;
  bool urgent_;

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  Status status_;
};

}  // namespace shardlight::comm
