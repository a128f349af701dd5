#include "shardlight/memory/account.h"

#include "shardlight/base/check.h"

namespace shardlight::memory {

std::string_view name_of(Tag tag) {
  static constexpr std::array<std::string_view, kTags> kNames = {
      "parameters", "gathered",  "gradients",   "buckets",     "unreduced", "sums",
      "master",     "optimizer", "activations", "temporaries", "cached"};
  return kNames.at(static_cast<std::size_t>(tag));
}

void Account::Counter::change(std::int64_t by) {
  const auto value = now.fetch_add(by) + by;
  auto highest = peak.load();
  while (value > highest && !peak.compare_exchange_weak(highest, value)) {
  }
}

Level Account::Counter::level() const { return {.now = Bytes(now), .peak = Bytes(peak)}; }

void Account::add(Tag tag, Bytes bytes) {
  if (make_room_ && tag != Tag::kCached && level(Tag::kCached).now > Bytes(0)) {
    const Level all = total();
    const Bytes after = all.now + bytes;
    if (after > all.peak) make_room_(after - all.peak);
  }
  tags_.at(static_cast<std::size_t>(tag)).change(bytes.value());
  total_.change(bytes.value());
}

void Account::remove(Tag tag, Bytes bytes) { add(tag, Bytes(0) - bytes); }

void Account::move(Tag from, Tag to, Bytes bytes) {
  tags_.at(static_cast<std::size_t>(from)).change(-bytes.value());
  tags_.at(static_cast<std::size_t>(to)).change(bytes.value());
}

Level Account::level(Tag tag) const { return tags_.at(static_cast<std::size_t>(tag)).level(); }

Level Account::total() const { return total_.level(); }

void Account::reset_peaks() {
  for (auto& counter : tags_) counter.peak = counter.now.load();
  total_.peak = total_.now.load();
}

}  // namespace shardlight::memory
