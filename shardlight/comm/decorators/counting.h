// A decorator that counts, for each kind of operation, calls, those that failed, and the bytes that
// callers handed over or received. Any number of threads may call and read; a reader sees each
// number by itself.
#pragma once

#include <array>
#include <atomic>

#include "shardlight/comm/decorators/decorator.h"

namespace shardlight::comm {

struct OperationCount {
  std::int64_t calls = 0;
  std::int64_t failed = 0;
  Bytes bytes;
};

class Counting final : public Decorator {
 public:
  explicit Counting(std::unique_ptr<Transport> inner) : Decorator(std::move(inner)) {}

  OperationCount count(OperationKind kind) const;

 protected:
  Status around(const Operation& operation, const Make& make) override;

 private:
  struct Row {
    std::atomic<std::int64_t> calls{0}, failed{0}, bytes{0};
  };

  std::array<Row, kOperationKinds> rows_;
};

}  // namespace shardlight::comm
