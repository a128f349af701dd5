// What is seen of a run while it goes on: one line that is written over on a terminal, a plain line
// now and then elsewhere; and run.jsonl, a line a step and rank. Of rank 0; one thread. Time comes
// from a Clock.
#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/clock.h"
#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight::cli {

// Of one rank in one step.
struct RankStep {
  double loss = 0;  // the mean over its micro-batches
  double seconds = 0;
  Bytes gathered;  // the most that was gathered
  Bytes total;     // the most that was held, of all tags
};

struct StepLine {
  std::int64_t step = 0;  // from 1 on
  double loss = 0;        // the mean over all ranks and micro-batches
  double lr = 0;
  std::optional<double> gradient_norm;
  std::vector<RankStep> ranks;
};

struct ProgressOptions {
  bool terminal = false;
  std::int64_t steps = 0;
  std::int64_t tokens_per_step = 0;
  std::int64_t log_every = 1;
};

class Progress {
 public:
  Progress(std::ostream& out, const ProgressOptions& options, const Clock& clock);

  // Errors (environment) of both: the output could not be written.
  Status show(const StepLine& line);
  // Ends the line that stands on a terminal.
  Status finish();

 private:
  std::string text_of(const StepLine& line) const;

  std::ostream& out_;
  ProgressOptions options_;
  const Clock& clock_;
  bool line_open_ = false;
  // When the last steps ended, oldest first; the start of the run is the first.
  std::deque<Clock::Duration> ends_;
};

// A loss with all the digits that tell its float from others.
std::string loss_text(double loss);

// Lines of run.jsonl, each ended.
std::string jsonl_of(const StepLine& line, std::int64_t tokens_per_step);

// A hash of all losses of a run, bit by bit and in order: FNV-1a over the doubles.
class LossHash {
 public:
  void add(double loss);
  std::string text() const;  // 16 digits

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace shardlight::cli
