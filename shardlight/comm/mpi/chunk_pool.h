// Buffers of one chunk that transfers go through, used again and again. Chunks may outlive the
// pool. For one thread. Internal to comm/mpi.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace shardlight::comm {

// What one call of MPI moves at most: short enough that messages between two of them are not kept
// waiting, long enough that their number does not matter.
inline constexpr std::int64_t kChunkBytes = std::int64_t{512} << 10;
// Chunks of one transfer that are under way at once.
inline constexpr int kChunksAtOnce = 4;

using Chunk = std::shared_ptr<std::vector<std::byte>>;

class ChunkPool {
 public:
  Chunk take() {
    if (free_->empty()) {
      free_->push_back(std::make_unique<std::vector<std::byte>>(kChunkBytes));
    }
    std::vector<std::byte>* bytes = free_->back().release();
    free_->pop_back();
    return {bytes, [free = free_](std::vector<std::byte>* back) { free->emplace_back(back); }};
  }

 private:
  using Free = std::vector<std::unique_ptr<std::vector<std::byte>>>;
  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

}  // namespace shardlight::comm
