#include "shardlight/comm/shared/failure.h"

#include <fmt/format.h>

namespace shardlight::comm {

std::uint64_t packed(const RankFailure& failure) {
  return static_cast<std::uint64_t>(failure.reason) << 56 |
         static_cast<std::uint64_t>(failure.operation) << 48 |
         static_cast<std::uint64_t>(failure.by.value()) << 40 |
         static_cast<std::uint64_t>(failure.culprit.value()) << 32 | failure.unit;
}

RankFailure unpacked(std::uint64_t word) {
  return {.by = Rank(static_cast<std::int64_t>(word >> 40 & 0xff)),
          .culprit = Rank(static_cast<std::int64_t>(word >> 32 & 0xff)),
          .reason = static_cast<FailureReason>(word >> 56 & 0xff),
          .operation = static_cast<OperationKind>(word >> 48 & 0xff),
          .unit = static_cast<std::uint32_t>(word)};
}

std::string culprit_text(const RankFailure& failure) {
  const char* what = failure.reason == FailureReason::kDied    ? "died"
                     : failure.reason == FailureReason::kLeft  ? "left"
                     : failure.reason == FailureReason::kSizes ? "sent another size"
                                                               : "did not come in time";
  return fmt::format("rank {} {}", failure.culprit.value(), what);
}

}  // namespace shardlight::comm
