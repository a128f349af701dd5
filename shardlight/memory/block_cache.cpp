#include "shardlight/memory/block_cache.h"

#include <pthread.h>
#include <sys/mman.h>

#include <utility>

#include "shardlight/memory/pages.h"

namespace shardlight::memory {
namespace {

Bytes bytes_of(const Block& block) { return Bytes(static_cast<std::int64_t>(block.bytes)); }

}  // namespace

BlockCache& BlockCache::of_process() {
  // For good: tensors may end after everything else.
  static auto* const kCache = [] {
    auto* const made = new BlockCache();
    // No child has a lock that a thread of its parent took.
    ::pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                     [] { of_process().mutex_.unlock(); });
    return made;
  }();
  return *kCache;
}

void BlockCache::open(const std::shared_ptr<Account>& account) {
  account->make_room_by([this, own = account.get()](Bytes bytes) { this->give_back(*own, bytes); });
  const std::scoped_lock lock(mutex_);
  open_.insert(account.get());
}

void BlockCache::close(const Account& account) {
  const std::scoped_lock lock(mutex_);
  open_.erase(&account);
  drop(account, account.level(Tag::kCached).now);
}

Block BlockCache::take(std::size_t bytes) {
  const std::size_t needed = whole_pages(bytes);
  const std::scoped_lock lock(mutex_);
  auto best = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    const std::size_t size = kept->block.bytes;
    if (size < needed || size > needed + needed / 8) continue;
    // Of equal ones the last to come: its lines may still be in a cache of the processor.
    if (best == kept_.end() || size <= best->block.bytes) best = kept;
  }
  if (best == kept_.end()) {
    std::byte* data = map_pages(needed);
    for (; data == nullptr && !kept_.empty(); data = map_pages(needed)) {
      const auto account = kept_.front().account;
      drop(*account, bytes_of(kept_.front().block));
    }
    return {.data = data, .bytes = needed};
  }
  const Block block = best->block;
  best->account->remove(Tag::kCached, bytes_of(block));
  kept_.erase(best);
  return block;
}

void BlockCache::give(Block block, std::shared_ptr<Account> account) {
  const std::scoped_lock lock(mutex_);
  if (!open_.contains(account.get())) {
    ::munmap(block.data, block.bytes);
    return;
  }
  account->add(Tag::kCached, bytes_of(block));
  kept_.push_back({block, std::move(account)});
}

void BlockCache::give_back(const Account& account, Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  drop(account, bytes);
}

void BlockCache::drop(const Account& account, Bytes bytes) {
  for (auto kept = kept_.begin(); kept != kept_.end() && bytes > Bytes(0);) {
    if (kept->account.get() != &account) {
      ++kept;
      continue;
    }
    const Block block = kept->block;
    bytes = bytes - bytes_of(block);
    kept->account->remove(Tag::kCached, bytes_of(block));
    kept = kept_.erase(kept);
    ::munmap(block.data, block.bytes);
  }
}

}  // namespace shardlight::memory
