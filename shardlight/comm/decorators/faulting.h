// A decorator with which one chosen call of one chosen rank goes wrong: to show that the others say
// so within their deadline. Which call, a test may draw from a seed. After an injected error every
// further call of the rank fails, as after any other. As many threads as the inner transport
// allows; with several, which call is the n-th is up to them.
#pragma once

#include <signal.h>

#include <atomic>

#include "shardlight/comm/decorators/decorator.h"

namespace shardlight::comm {

enum class FaultKind {
  kLose,    // not made, and reported done to its caller
  kFail,    // not made, and an error
  kSignal,  // the process sends itself a signal; if it lives, it then makes the call
};

struct Fault {
  FaultKind kind = FaultKind::kLose;
  Rank rank;
  std::int64_t call = 0;  // the n-th of the rank's calls, from 0
  // Counts calls of this kind alone.
  std::optional<OperationKind> only = {};
  int signal = SIGKILL;
};

// With a rank below `world` and a call below `calls`, by the seed.
Fault seeded_fault(Fault fault, std::uint64_t seed, std::int64_t world, std::int64_t calls);

class Faulting final : public Decorator {
 public:
  // The same fault on all ranks; it is the chosen rank's alone.
  Faulting(std::unique_ptr<Transport> inner, const Fault& fault)
      : Decorator(std::move(inner)), fault_(fault) {}

  // Whether the chosen call has been.
  bool struck() const { return rank() == fault_.rank && calls_ > fault_.call; }

 protected:
  Status around(const Operation& operation, const Make& make) override;

 private:
  Failure failure(const Operation& operation) const;

  Fault fault_;
  std::atomic<std::int64_t> calls_{0};
};

}  // namespace shardlight::comm
