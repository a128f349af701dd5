// The account of a rank's memory: every byte has a tag, and each tag a present and a highest value,
// as has their sum. Who holds memory says so here; nothing is allocated here.
// Any thread may add, remove and read; a reader sees each number by itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>

#include "shardlight/base/quantity.h"

namespace shardlight::memory {

enum class Tag : std::uint8_t {
  kParameters,   // the rank's own share, or all of replicated ones
  kGathered,     // units fetched from their owners
  kGradients,    // the rank's share of the reduced ones, or all of replicated ones
  kBuckets,      // gradients on their way into a sum
  kUnreduced,    // local sums over micro-steps that wait for the step
  kSums,         // shared sums beside replicated gradients
  kMaster,       // fp32 copies of 16-bit parameters
  kOptimizer,    // optimizer states
  kActivations,  // what torch allocates outside of backward
  kTemporaries,  // what torch allocates in backward, and a class of torch.optim in its step
  kCached,       // large pieces of torch's memory that ended, kept for the next ones
};

inline constexpr std::size_t kTags = 11;

std::string_view name_of(Tag tag);

struct Level {
  Bytes now;
  Bytes peak;
};

class Account {
 public:
  void add(Tag tag, Bytes bytes);
  void remove(Tag tag, Bytes bytes);
  // Gives bytes another tag: the sum does not move.
  void move(Tag from, Tag to, Bytes bytes);

  // What add() calls where something is kCached and the sum would rise above its peak: it takes as
  // many bytes of that off, if it can. Given before other threads use the account.
  void make_room_by(std::function<void(Bytes)> make_room) { make_room_ = std::move(make_room); }

  Level level(Tag tag) const;
  // Of all tags together; the peak is that of the sum, not the sum of peaks.
  Level total() const;
  // Peaks start anew from what is held now.
  void reset_peaks();

 private:
  struct Counter {
    std::atomic<std::int64_t> now{0}, peak{0};

    void change(std::int64_t by);
    Level level() const;
  };

  std::array<Counter, kTags> tags_;
  Counter total_;
  std::function<void(Bytes)> make_room_;
};

}  // namespace shardlight::memory
