// The first failure among ranks that share memory: what every rank's next call reports. Packed into
// one word, so that it is written once and whole, even by a rank that is killed right after. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

enum class FailureReason : std::uint8_t { kDied = 1, kLeft, kDeadline, kSizes };

struct RankFailure {
  Rank by;       // who noticed
  Rank culprit;  // who was waited for; who sent another size than `by` receives
  FailureReason reason = FailureReason::kDied;
  OperationKind operation = OperationKind::kNone;  // of `by`
  std::uint32_t unit = 0;                          // index + 1, or 0
};

// Never 0. Ranks below kMaxSharedRanks.
std::uint64_t packed(const RankFailure& failure);
RankFailure unpacked(std::uint64_t word);

// "rank 1 died", "rank 1 left", "rank 1 did not come in time"; of kSizes the transport knows more.
std::string culprit_text(const RankFailure& failure);

}  // namespace shardlight::comm
