#include "shardlight/comm/shared/shared_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/text_hash.h"

namespace shardlight::comm {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kLine = 64;
constexpr std::int64_t kWord = sizeof(Word);

}  // namespace

Status check_shared_world(std::int64_t world) {
  if (world >= 1 && world <= kMaxSharedRanks) return {};
  return user_error("world", fmt::to_string(world),
                    fmt::format("1 to {} ranks that share memory", kMaxSharedRanks));
}

SharedLayout::SharedLayout(const std::vector<UnitSpec>& units, std::int64_t world) : world_(world) {
  take(sizeof(Control), kPage);
  mailboxes_ = take(static_cast<std::int64_t>(sizeof(Mailbox)) * world * world, kPage);
  for (const UnitSpec& unit : units) {
    UnitPlaces places;
    places.versions = take(kWord * world, kLine);
    places.released = take(kWord * world, kLine);
    if (unit.whole) places.stride = round_up(unit.bytes().value(), kPage);
    places.shards = take(unit.whole ? places.stride * world : unit.bytes().value(), kPage);
    if (unit.reduces) {
      // Of a unit of nothing too, there is to say whether anybody had a gradient.
      places.chunks = divide_up(std::max<std::int64_t>(unit.elements().value(), 1), kChunkElements);
      places.buffers = reduce_buffers(unit.order, world);
      places.done = take(kWord * places.chunks * world, kLine);
      places.filled = take(4 * places.chunks * places.buffers, kLine);
      places.sums = take(unit.sum_bytes(unit.elements()).value() * places.buffers, kPage);
    }
    places_.push_back(places);
  }
  size_ = round_up(size_, kPage);
  fingerprint_ = hash_of_text(fmt::to_string(world) + text_of(units));
}

std::int64_t SharedLayout::mailbox(std::int64_t from, std::int64_t to) const {
  return mailboxes_ + static_cast<std::int64_t>(sizeof(Mailbox)) * (from * world_ + to);
}

std::int64_t SharedLayout::take(std::int64_t bytes, std::int64_t alignment) {
  const std::int64_t begin = round_up(size_, alignment);
  size_ = begin + bytes;
  return begin;
}

}  // namespace shardlight::comm
