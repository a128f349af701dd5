// A counter in shared memory that ranks wait on: a 32-bit futex word. Used between threads of one
// process and between processes alike; its futex is not private.
//
// A wait pauses a few times, gives its core away for a fraction of a millisecond, then sleeps: with
// more ranks than cores, spinning would keep the rank that is waited for from running.
#pragma once

#include <atomic>
#include <cstdint>

#include "shardlight/comm/deadline.h"

namespace shardlight::comm {

// Zeroed memory is a valid Word of value 0. Values may wrap; order is that of the difference.
class alignas(8) Word {
 public:
  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  bool reached(std::uint32_t wanted) const {
    return static_cast<std::int32_t>(load() - wanted) >= 0;
  }
  // Publishes everything written before, and wakes who sleeps.
  void store(std::uint32_t value);
  std::uint32_t add(std::uint32_t by);
  void wake();

  // Sleeps until the value is not `seen`, somebody wakes it or `limit` passes; may return early.
  void sleep(std::uint32_t seen, Seconds limit);

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

enum class Waited { kReached, kDeadline, kStopped };

// What a sleeping wait asks about the world now and then.
class Liveness {
 public:
  virtual ~Liveness() = default;
  // Whether waiting has become pointless: a rank is gone, or somebody's call has failed.
  virtual bool stopped() = 0;
};

// Until word.reached(wanted), the deadline, or liveness.stopped(), asked about every 50 ms.
// `spins`: pauses before the core is given away; 0 where ranks outnumber cores.
Waited wait_for(Word& word, std::uint32_t wanted, int spins, Liveness& liveness,
                const Deadline& deadline);

}  // namespace shardlight::comm
