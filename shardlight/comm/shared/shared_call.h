// One call of one rank while it runs: its descriptor and deadline, shown to the other ranks in the
// control block, with what it waits for, so that of a stuck job one can tell who holds it up. Made
// and used by one thread; several may be alive at once. Internal to shared/.
#pragma once

#include "shardlight/comm/shared/shared_transport.h"

namespace shardlight::comm {

class SharedTransport::Call {
 public:
  Call(RankRecord& record, Operation operation, std::uint32_t unit, Deadline deadline)
      : operation_(std::move(operation)), unit_(unit), deadline_(deadline) {
    for (CallRecord& shown : record.calls) {
      std::uint32_t free = 0;
      if (!shown.operation.compare_exchange_strong(free,
                                                   static_cast<std::uint32_t>(operation_.kind))) {
        continue;
      }
      shown.unit.store(unit, std::memory_order_relaxed);
      const std::string& lane = lane_of_this_thread();
      for (std::size_t i = 0; i < kShownLane; ++i) {
        shown.lane[i].store(i < lane.size() ? lane[i] : '\0', std::memory_order_relaxed);
        if (i >= lane.size()) break;
      }
      shown.since_nanoseconds.store(Deadline::Clock::now().time_since_epoch().count(),
                                    std::memory_order_relaxed);
      shown_ = &shown;
      return;
    }
  }
  ~Call() {
    if (shown_ != nullptr) shown_->operation.store(0, std::memory_order_release);
  }
  Call(const Call&) = delete;
  Call(Call&&) = delete;
  Call& operator=(const Call&) = delete;
  Call& operator=(Call&&) = delete;

  const Operation& operation() const { return operation_; }
  std::uint32_t unit() const { return unit_; }
  const Deadline& deadline() const { return deadline_; }

  void show_wait(std::int64_t word, std::uint32_t value, std::optional<Rank> whom) {
    if (shown_ == nullptr) return;
    shown_->awaited_value.store(value, std::memory_order_relaxed);
    shown_->awaited_rank.store(whom ? static_cast<std::uint32_t>(whom->value() + 1) : 0,
                               std::memory_order_relaxed);
    shown_->awaited_word.store(word, std::memory_order_release);
  }
  void show_no_wait() {
    if (shown_ != nullptr) shown_->awaited_word.store(0, std::memory_order_release);
  }

 private:
  CallRecord* shown_ = nullptr;
  Operation operation_;
  std::uint32_t unit_;
  Deadline deadline_;
};

}  // namespace shardlight::comm
