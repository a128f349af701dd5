// A decorator that notes when each call began and ended: spans with the call's descriptor, for a
// report to draw, and seconds by kind of operation. Calls are what is measured, waiting included,
// not bytes on their way. Any number of threads may call and read; a reader gets a copy.
#pragma once

#include <array>
#include <mutex>
#include <vector>

#include "shardlight/base/clock.h"
#include "shardlight/comm/decorators/decorator.h"

namespace shardlight::comm {

struct OperationSpan {
  Operation operation;
  // Since the decorator was made.
  Clock::Duration begin{};
  Clock::Duration end{};
  bool done = false;  // went well

  Seconds took() const { return end - begin; }
};

// Of one kind: calls and total of all, the rest of the spans that were kept. A quantile is the
// shortest time that this part of them kept within.
struct OperationSeconds {
  std::int64_t calls = 0;
  Seconds total{};
  Seconds p50{};
  Seconds p99{};
  Seconds longest{};
};

class Tracing final : public Decorator {
 public:
  static constexpr std::size_t kMostSpans = std::size_t{1} << 20;

  // `clock` outlives it. Of more than `most_spans` calls the later ones are only counted.
  Tracing(std::unique_ptr<Transport> inner, const Clock& clock, std::size_t most_spans = kMostSpans)
      : Decorator(std::move(inner)), clock_(clock), begin_(clock.now()), most_spans_(most_spans) {}

  std::vector<OperationSpan> spans() const;  // in the order of their ends
  std::int64_t spans_left_out() const;
  OperationSeconds seconds(OperationKind kind) const;

 protected:
  Status around(const Operation& operation, const Make& make) override;

 private:
  const Clock& clock_;
  Clock::Duration begin_;
  std::size_t most_spans_;
  mutable std::mutex mutex_;
  std::vector<OperationSpan> spans_;
  std::int64_t left_out_ = 0;
  std::array<std::int64_t, kOperationKinds> calls_ = {};
  std::array<Clock::Duration, kOperationKinds> total_ = {};
};

}  // namespace shardlight::comm
