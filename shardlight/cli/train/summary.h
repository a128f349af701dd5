// What is left of a training run when it has ended: losses, memory by tag against the ledger,
// traffic against what was planned, times of the exchange, for every rank. Shown as tables and kept
// as summary.json, from the same report. Values without torch; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardlight/cli/report.h"
#include "shardlight/cli/train/preparation.h"
#include "shardlight/memory/account.h"

namespace shardlight::cli {

struct TagEnd {
  memory::Level bytes;
  std::optional<Bytes> ledger;  // what it should hold between steps
};

struct TimesEnd {
  std::int64_t calls = 0;
  Seconds half{0}, most{0}, total{0};  // p50, p99, of all together
};

struct RankEnd {
  std::array<TagEnd, memory::kTags> tags;
  memory::Level total;
  Bytes gathered, reduced;                  // moved, by the transport's counters
  Bytes planned_gathered, planned_reduced;  // by the schedule
  Bytes gathered_peak;
  TimesEnd gathers, reductions;
  Seconds waited{0};  // that forward and backward waited for them

  // Of the time that gathers and reductions took, the share in which the model went on computing.
  double hidden_share() const;
};

// As numbers that ranks can exchange, and back.
std::vector<double> numbers_of(const RankEnd& end);
RankEnd rank_end_of(const std::vector<double>& numbers);

struct RunEnd {
  std::int64_t steps = 0;    // that were made
  std::int64_t skipped = 0;  // of them, without effect: a gradient was not finite
  bool interrupted = false;
  double loss_first = 0, loss_last = 0;
  double held_out_before = 0, held_out_after = 0;
  Seconds seconds{0};  // of the steps
  std::string loss_hash;
  std::string cores;  // of rank 0
  std::string sample;
  std::vector<RankEnd> ranks;
};

Report end_report(const Preparation& preparation, const RunEnd& end);

}  // namespace shardlight::cli
