#include "shardlight/memory/pages.h"

#include <sys/mman.h>
#include <unistd.h>

namespace shardlight::memory {
namespace {

// From here on a huge page can pay.
constexpr std::size_t kHugeFrom = std::size_t{2} << 20;

}  // namespace

std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

std::byte* map_pages(std::size_t bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  // Advice only: without it the memory is the same.
  if (bytes >= kHugeFrom) ::madvise(data, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

}  // namespace shardlight::memory
