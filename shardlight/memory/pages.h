// Pages of the kernel: how many bytes they are, and how to get private ones. Nothing here is on an
// account. Any thread.
#pragma once

#include <cstddef>

namespace shardlight::memory {

std::size_t page_bytes();
// The least number of whole pages' bytes that is enough.
std::size_t whole_pages(std::size_t bytes);
// Zeros, in huge pages where the kernel has them and it can pay; null if there is no memory.
std::byte* map_pages(std::size_t bytes);

}  // namespace shardlight::memory
