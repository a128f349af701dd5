#include "shardlight/comm/decorators/counting.h"

namespace shardlight::comm {

OperationCount Counting::count(OperationKind kind) const {
  const Row& row = rows_[static_cast<std::size_t>(kind)];
  return {.calls = row.calls, .failed = row.failed, .bytes = Bytes(row.bytes)};
}

Status Counting::around(const Operation& operation, const Make& make) {
  Status done = make();
  Row& row = rows_[static_cast<std::size_t>(operation.kind)];
  ++row.calls;
  if (done) {
    row.bytes += operation.bytes.value();
  } else {
    ++row.failed;
  }
  return done;
}

}  // namespace shardlight::comm
