// What stands where in the segment that ranks share: a control block, and for each unit its
// counters, its shards and its sums. A pure function of the units and the world, so that all ranks
// agree; fingerprint() lets them check that they do.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "shardlight/comm/shared/word.h"
#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// Ranks of one host, or threads; bounds the control block.
inline constexpr std::int64_t kMaxSharedRanks = 128;
// What a rank adds before it lets the next one go on: 256 KiB of fp32.
inline constexpr std::int64_t kChunkElements = 65'536;
inline constexpr std::int64_t kBroadcastBytes = 262'144;
inline constexpr std::int64_t kMailboxBytes = 65'536;

// A user error (`world`) unless 1 <= world <= kMaxSharedRanks.
Status check_shared_world(std::int64_t world);

enum class RankState : std::uint32_t { kAbsent, kActive, kLeft };

// Calls of one rank at a time that the table of a stuck job can show; more are not shown.
inline constexpr int kShownCalls = 4;
// As much of a lane's name as the table shows.
inline constexpr std::size_t kShownLane = 16;

// A call while it runs, and what it waits for just now. Only for what people read: a reader may see
// a call half written.
struct CallRecord {
  std::atomic<std::uint32_t> operation;            // OperationKind; kNone: not taken
  std::atomic<std::uint32_t> unit;                 // index + 1, or 0
  std::array<std::atomic<char>, kShownLane> lane;  // ends with a 0 where it is shorter
  std::atomic<std::int64_t> since_nanoseconds;
  std::atomic<std::int64_t> awaited_word;  // its offset in the segment; 0: it does not wait
  std::atomic<std::uint32_t> awaited_value;
  std::atomic<std::uint32_t> awaited_rank;  // rank + 1; 0: whoever is missing at the barrier
};

// One rank's part of the control block; written by that rank alone.
struct alignas(64) RankRecord {
  std::atomic<std::uint32_t> state;  // RankState
  Word arrivals;                     // at barriers
  std::array<CallRecord, kShownCalls> calls;
};

// Point to point, one direction of one pair.
struct alignas(64) Mailbox {
  Word sent, taken;  // packets
  // Of the message under way: what its sender sends, and what its receiver wants.
  std::atomic<std::int64_t> bytes_sent, bytes_wanted;
  std::array<std::byte, kMailboxBytes> bytes;
};

struct Control {
  // The first failure of any rank, packed (failure.h); 0 while there is none.
  alignas(64) std::atomic<std::uint64_t> failure;
  alignas(64) Word barrier_arrived;
  alignas(64) Word barrier_generation;
  std::array<RankRecord, kMaxSharedRanks> ranks;
  // Two of each, used in turn.
  std::array<std::array<std::array<double, Transport::kMaxAllReduce>, kMaxSharedRanks>, 2>
      all_reduce;
  std::array<std::array<std::byte, kBroadcastBytes>, 2> broadcast;
};

// Offsets from the start of the segment.
struct UnitPlaces {
  std::int64_t versions = 0;  // Word by rank
  std::int64_t released = 0;  // Word by rank
  std::int64_t done = 0;      // Word by chunk, then rank
  std::int64_t filled = 0;    // uint32 by buffer, then chunk: 1 + the round that last added to it
  std::int64_t shards = 0;    // the unit, slice after slice
  // From one rank's memory of the unit to the next one's; 0 where they all share one.
  std::int64_t stride = 0;
  std::int64_t sums = 0;  // buffer after buffer, of UnitSpec::sum_dtype
  std::int64_t chunks = 0;
  int buffers = 0;
};

class SharedLayout {
 public:
  SharedLayout(const std::vector<UnitSpec>& units, std::int64_t world);

  const UnitPlaces& places(UnitId unit) const { return places_[unit]; }
  // Of rank `from` to rank `to`.
  std::int64_t mailbox(std::int64_t from, std::int64_t to) const;
  Bytes size() const { return Bytes(size_); }
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::int64_t take(std::int64_t bytes, std::int64_t alignment);

  std::int64_t world_;
  std::int64_t size_ = 0;
  std::int64_t mailboxes_ = 0;
  std::vector<UnitPlaces> places_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace shardlight::comm
