#include "shardlight/memory/block_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "shardlight/memory/pages.h"

namespace shardlight::memory {
namespace {

Bytes bytes_of(const Block& block) { return Bytes(static_cast<std::int64_t>(block.bytes)); }

}  // namespace

BlockCache& BlockCache::of_process() {
  // For good: tensors may end after everything else.
  static auto* const cache = new BlockCache();
  return *cache;
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
  Block block;
  if (best != kept_.end()) {
    block = best->block;
    forget(*best);
    kept_.erase(best);
  } else {
    while (!kept_.empty() && used_bytes_ + kept_bytes_ + needed > most_used_) release_oldest();
    block = {.data = map_pages(needed), .bytes = needed};
    if (block.data == nullptr) return {};
  }
  used_bytes_ += block.bytes;
  most_used_ = std::max(most_used_, used_bytes_);
  return block;
}

void BlockCache::give(Block block, std::shared_ptr<Account> account) {
  const std::scoped_lock lock(mutex_);
  used_bytes_ -= block.bytes;
  kept_bytes_ += block.bytes;
  if (account) account->add(Tag::kCached, bytes_of(block));
  kept_.push_back({block, std::move(account)});
}

void BlockCache::trim() {
  const std::scoped_lock lock(mutex_);
  while (!kept_.empty()) release_oldest();
  most_used_ = used_bytes_;
}

void BlockCache::release_oldest() {
  const Kept kept = std::move(kept_.front());
  kept_.pop_front();
  forget(kept);
  ::munmap(kept.block.data, kept.block.bytes);
}

void BlockCache::forget(const Kept& kept) {
  kept_bytes_ -= kept.block.bytes;
  if (kept.account) kept.account->remove(Tag::kCached, bytes_of(kept.block));
}

}  // namespace shardlight::memory
