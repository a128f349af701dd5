// Large pieces of memory that are used again. What ends is kept with its pages in place, and who
// asks for as much gets it: no page fault, no zeroing. What is in use and what is kept never take
// more together than the most that was in use at once, so keeping costs nothing at the peak.
// Pieces come from the kernel one by one, in huge pages where it has them, so that they do not tear
// a heap into holes that nothing fits in again.
//
// One a process, for every thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "shardlight/memory/account.h"

namespace shardlight::memory {

struct Block {
  std::byte* data = nullptr;  // null: there was no memory
  std::size_t bytes = 0;      // as many as were asked for, or up to an eighth more
};

class BlockCache {
 public:
  static BlockCache& of_process();

  // Aligned to a page; what is in it is anything.
  Block take(std::size_t bytes);
  // It stands on the account, if there is one, with the tag kCached as long as it is kept.
  void give(Block block, std::shared_ptr<Account> account);
  // Gives back to the kernel all that is kept.
  void trim();

 private:
  struct Kept {
    Block block;
    std::shared_ptr<Account> account;
  };

  BlockCache() = default;
  void release_oldest();
  void forget(const Kept& kept);

  std::mutex mutex_;
  std::deque<Kept> kept_;  // the oldest first
  std::size_t kept_bytes_ = 0, used_bytes_ = 0, most_used_ = 0;
};

}  // namespace shardlight::memory
