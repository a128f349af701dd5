#include "shardlight/comm/decorators/checking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "shardlight/comm/text_hash.h"

namespace shardlight::comm {
namespace {

// What a rank says of its call; longer texts are cut.
constexpr std::size_t kTextBytes = 256;

Error error_in(const Operation& operation, Rank rank, const std::string& detail) {
  return Error::environment(
      {.rank = rank, .unit = operation.unit, .operation = std::string(name_of(operation.kind))},
      detail, Unusable::kCommunicator);
}

}  // namespace

bool Checking::compares(OperationKind kind) const {
  switch (kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kBroadcast:
    case OperationKind::kBarrier:
      return true;
    case OperationKind::kSend:
    case OperationKind::kReceive:
      return false;
    default:
      return options_.every_call;
  }
}

Status Checking::around(const Operation& operation, const Make& make) {
  if (compares(operation.kind)) {
    const std::scoped_lock lock(mutex_);
    if (failed_) return Failure(*failed_);
    Status same = compare(operation);
    if (!same) {
      failed_ = same.error();
      return same;
    }
  }
  return make();
}

Status Checking::compare(const Operation& operation) {
  const Deadline deadline = operation.deadline.value_or(Deadline(options_.limit));
  // A call of a unit differs by its unit only: ranks own different numbers of bytes.
  Operation compared = operation;
  if (!operation.unit.empty()) compared.bytes = Bytes(0);
  history_ = hash_of_text(full_text_of(compared) + "\n", history_);
  ++calls_;
  // As much of it as a double holds exactly; greatest and, negated, least of all ranks.
  const auto shown = static_cast<double>(history_ >> 11);
  std::array<double, 2> extremes = {shown, -shown};
  const Status done = inner().all_reduce(extremes, Combine::kMax, deadline);
  if (!done) {
    return Failure(error_in(operation, rank(), "comparing calls: " + done.error().detail()));
  }
  return extremes[0] == -extremes[1] ? Status() : disagreement(compared, deadline);
}

Status Checking::disagreement(const Operation& operation, const Deadline& deadline) {
  const std::string own =
      fmt::format("{} as call {}", full_text_of(operation), calls_).substr(0, kTextBytes);
  std::string others;
  for (std::int64_t root = 0; root < world(); ++root) {
    std::array<char, kTextBytes> text = {};
    std::copy(own.begin(), own.end(), text.begin());
    SHARDLIGHT_TRY_STATUS(
        inner().broadcast(std::as_writable_bytes(std::span(text)), Rank(root), deadline));
    const std::string theirs(text.begin(), std::find(text.begin(), text.end(), '\0'));
    if (others.empty() && theirs != own) others = fmt::format("rank {} calls {}", root, theirs);
  }
  if (others.empty()) others = "other ranks made other calls before it";
  return Failure(error_in(operation, rank(), fmt::format("this rank calls {}, {}", own, others)));
}

}  // namespace shardlight::comm
