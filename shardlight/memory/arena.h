// One range of memory for pieces of different sizes that come and go, never more than its size:
// what gathered units live in. It keeps what it has touched, so that taking a piece again costs no
// page faults; only where the free parts do not lie together are they given back to the kernel and
// a piece is made beside them, so that the sum still holds. One thread at a time.
#pragma once

#include <map>
#include <memory>

#include "shardlight/memory/buffer.h"

namespace shardlight::memory {

class Arena {
 public:
  // Pieces take multiples of this.
  static constexpr std::int64_t kGrainBytes = 64;

  // `size` is on the account from the beginning to the end. Errors: as Buffer::zeros.
  static Result<Arena> create(Account& account, Tag tag, Bytes size);

  // What may be taken together.
  Bytes size() const { return limit_; }
  Bytes used() const { return used_; }
  Bytes used_peak() const { return used_peak_; }

  // Null if less than `bytes` is free. What it points to is aligned to a cache line and not
  // cleared; pieces without bytes take nothing.
  std::byte* take(Bytes bytes);
  void give(std::byte* piece);
  // Allows so much more; it is on the account as long as it is taken.
  void allow(Bytes more) { limit_ += more; }

 private:
  struct Piece {
    std::size_t size;
    Buffer own;  // empty for a piece of the range
  };

  explicit Arena(Account& account, Tag tag, Buffer range)
      : account_(&account),
        tag_(tag),
        range_(std::move(range)),
        limit_(static_cast<std::int64_t>(range_.size())) {}
  std::byte* find_gap(std::size_t size) const;
  void drop_gaps();
  void set_used(Bytes used);

  Account* account_;
  // Of pieces beside the range, which set_used() has on the account together with it.
  std::unique_ptr<Account> beside_ = std::make_unique<Account>();
  Tag tag_;
  Buffer range_;
  std::map<std::byte*, Piece> pieces_;
  Bytes limit_;
  Bytes used_;
  Bytes used_peak_;
};

}  // namespace shardlight::memory
