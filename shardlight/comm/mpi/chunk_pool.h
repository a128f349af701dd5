// Buffers of one chunk that transfers go through, used again and again. Chunks may outlive the
// pool. For one thread. Internal to comm/mpi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardlight::comm {

// What one call of MPI moves at most: what Open MPI sends over TCP at once, without a handshake.
inline constexpr std::int64_t kChunkBytes = std::int64_t{63} << 10;
// Chunks of one transfer that are under way at once. More of them make the two directions of a
// connection wait for each other: with 8 MiB under way a link of 1 Gbit/s took twice as long.
inline constexpr int kChunksAtOnce = 8;

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
