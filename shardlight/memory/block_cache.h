// Large pieces of memory that are used again. What ends is kept with its pages in place, and who
// asks for as much gets it: no page fault, no zeroing. What is kept for an account stands on it and
// goes where its sum would rise above its peak, so keeping costs nothing at the peak. Pieces come
// from the kernel one by one, in huge pages where it has them, so that they do not tear a heap into
// holes that nothing fits in again.
// One a process, as torch's memory is, for every thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

#include "shardlight/memory/account.h"

namespace shardlight::memory {

struct Block {
  std::byte* data = nullptr;  // null: there was no memory
  std::size_t bytes = 0;      // what was asked for in whole pages, or up to an eighth more
};

class BlockCache {
 public:
  static BlockCache& of_process();

  // For an open account pieces are kept; when it closes, what is kept for it goes.
  void open(const std::shared_ptr<Account>& account);
  void close(const Account& account);

  // Aligned to a page; what is in it is anything. Who takes a block gives it.
  Block take(std::size_t bytes);
  // Kept on the account, with the tag kCached; if that is not open, it goes back to the kernel.
  void give(Block block, std::shared_ptr<Account> account);
  // Gives back to the kernel what is kept for the account, the oldest first, until it is as many
  // bytes or nothing is left.
  void give_back(const Account& account, Bytes bytes);

 private:
  void drop(const Account& account, Bytes bytes);

  struct Kept {
    Block block;
    std::shared_ptr<Account> account;
  };

  BlockCache() = default;
  std::mutex mutex_;
  std::set<const Account*> open_;
  std::deque<Kept> kept_;  // the oldest first
};

}  // namespace shardlight::memory
