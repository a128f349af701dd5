#include "shardlight/memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "shardlight/base/check.h"
#include "shardlight/memory/pages.h"

namespace shardlight::memory {
namespace {

// Where pieces without bytes are.
alignas(64) std::byte nothing{};

constexpr auto kGrain = static_cast<std::size_t>(Arena::kGrainBytes);

std::size_t round_up(std::size_t size) { return (size + kGrain - 1) / kGrain * kGrain; }

// The whole pages between two places go back to the kernel.
void drop_pages(std::byte* begin, std::byte* end) {
  const auto at = [](std::byte* place) { return reinterpret_cast<std::uintptr_t>(place); };
  const std::uintptr_t page = page_bytes();
  const std::uintptr_t first = (at(begin) + page - 1) / page * page;
  const std::uintptr_t last = at(end) / page * page;
  if (last > first) madvise(begin + (first - at(begin)), last - first, MADV_DONTNEED);
}

}  // namespace

Result<Arena> Arena::create(Account& account, Tag tag, Bytes size) {
  const auto rounded = static_cast<std::int64_t>(round_up(static_cast<std::size_t>(size.value())));
  SHARDLIGHT_TRY(auto range, Buffer::zeros(account, tag, Bytes(rounded)));
  return Arena(account, tag, std::move(range));
}

std::byte* Arena::take(Bytes bytes) {
  if (bytes == Bytes(0)) return &nothing;
  const std::size_t size = round_up(static_cast<std::size_t>(bytes.value()));
  const Bytes used = used_ + Bytes(static_cast<std::int64_t>(size));
  if (used > limit_) return nullptr;
  Piece piece{.size = size, .own = {}};
  std::byte* place = find_gap(size);
  if (place == nullptr) {
    drop_gaps();
    auto own = Buffer::zeros(*beside_, tag_, Bytes(static_cast<std::int64_t>(size)));
    if (!own) return nullptr;
    piece.own = std::move(*own);
    place = piece.own.data();
  }
  pieces_.emplace(place, std::move(piece));
  set_used(used);
  return place;
}

// On the account is the range, or what is taken where that is more: what lies beside the range
// stands for gaps in it as long as it can.
void Arena::set_used(Bytes used) {
  const Bytes range(static_cast<std::int64_t>(range_.size()));
  account_->add(tag_, std::max(range, used) - std::max(range, used_));
  used_ = used;
  used_peak_ = std::max(used_peak_, used_);
}

void Arena::give(std::byte* piece) {
  if (piece == &nothing) return;
  const auto found = pieces_.find(piece);
  SHARDLIGHT_CHECK_EQ(found != pieces_.end(), true);
  const Bytes size(static_cast<std::int64_t>(found->second.size));
  pieces_.erase(found);
  set_used(used_ - size);
}

// Pieces cling to the two ends, so that of two any two fit whose sizes do.
std::byte* Arena::find_gap(std::size_t size) const {
  std::byte* const begin = range_.data();
  std::byte* const end = begin + range_.size();
  std::byte* at = begin;
  std::byte* inner = nullptr;
  std::byte* last = nullptr;
  const auto consider = [&](std::byte* gap_end) {
    if (static_cast<std::size_t>(gap_end - at) < size) return;
    if (gap_end == end) last = gap_end - size;
    if (inner == nullptr) inner = at;
  };
  for (const auto& [place, piece] : pieces_) {
    if (place < begin || place >= end) continue;
    consider(place);
    if (inner == begin) return inner;
    at = place + piece.size;
  }
  consider(end);
  if (inner == begin) return inner;
  return last != nullptr ? last : inner;
}

void Arena::drop_gaps() {
  std::byte* at = range_.data();
  std::byte* const end = at + range_.size();
  for (const auto& [place, piece] : pieces_) {
    if (place < range_.data() || place >= end) continue;
    drop_pages(at, place);
    at = place + piece.size;
  }
  drop_pages(at, end);
}

}  // namespace shardlight::memory
