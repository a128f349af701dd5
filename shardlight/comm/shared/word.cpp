#include "shardlight/comm/shared/word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace shardlight::comm {
namespace {

constexpr Seconds kYieldFor{200e-6};
constexpr Seconds kAskLiveness{0.05};
constexpr int kYieldsBetweenClocks = 8;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The futex call takes the address of a plain 32-bit integer.
std::uint32_t* raw(std::atomic<std::uint32_t>& value) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  return reinterpret_cast<std::uint32_t*>(&value);
}

bool yield_until(Word& word, std::uint32_t wanted) {
  const auto end =
      Deadline::Clock::now() + std::chrono::duration_cast<Deadline::Clock::duration>(kYieldFor);
  do {
    for (int i = 0; i < kYieldsBetweenClocks; ++i) {
      ::sched_yield();
      if (word.reached(wanted)) return true;
    }
  } while (Deadline::Clock::now() < end);
  return false;
}

}  // namespace

void Word::store(std::uint32_t value) {
  // Sequentially consistent on both sides: either the waiter sees the value, or we see the waiter.
  value_.store(value, std::memory_order_seq_cst);
  wake();
}

std::uint32_t Word::add(std::uint32_t by) {
  const std::uint32_t value = value_.fetch_add(by, std::memory_order_seq_cst) + by;
  wake();
  return value;
}

void Word::wake() {
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  ::syscall(SYS_futex, raw(value_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Word::sleep(std::uint32_t seen, Seconds limit) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count();
  const timespec relative{.tv_sec = nanoseconds / 1'000'000'000,
                          .tv_nsec = nanoseconds % 1'000'000'000};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, raw(value_), FUTEX_WAIT, seen, &relative, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

Waited wait_for(Word& word, std::uint32_t wanted, int spins, Liveness& liveness,
                const Deadline& deadline) {
  for (int i = 0; i < spins; ++i) {
    if (word.reached(wanted)) return Waited::kReached;
    pause();
  }
  if (word.reached(wanted) || yield_until(word, wanted)) return Waited::kReached;
  while (true) {
    const std::uint32_t seen = word.load();
    if (static_cast<std::int32_t>(seen - wanted) >= 0) return Waited::kReached;
    if (liveness.stopped()) return Waited::kStopped;
    if (deadline.passed()) return Waited::kDeadline;
    word.sleep(seen, std::clamp(deadline.left(), Seconds(1e-6), kAskLiveness));
  }
}

}  // namespace shardlight::comm
