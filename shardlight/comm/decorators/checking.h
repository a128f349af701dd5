// A decorator that compares the ranks' collective calls before it makes them: all_reduce, broadcast
// and barrier, with their sizes and roots, and their history. A mismatch is an error on every rank
// that says what both sides call, and the end of this communicator; without this it is a hang or
// wrong numbers. One more all-reduce a call, so it is for tests and for the first steps of a run.
//
// Threads: as the inner transport allows; with every_call, collective calls of one thread only.
#pragma once

#include <mutex>

#include "shardlight/comm/decorators/decorator.h"

namespace shardlight::comm {

struct CheckingOptions {
  // All calls but messages, for transports whose gathers and reduces are collectives too.
  bool every_call = false;
  // For a comparison before a call that has no deadline, as publish and release.
  Seconds limit{60};
};

class Checking final : public Decorator {
 public:
  explicit Checking(std::unique_ptr<Transport> inner, CheckingOptions options = {})
      : Decorator(std::move(inner)), options_(options) {}

 protected:
  Status around(const Operation& operation, const Make& make) override;

 private:
  bool compares(OperationKind kind) const;
  Status compare(const Operation& operation);
  // Every rank is told what every other one calls; the first that differs from this one is named.
  Status disagreement(const Operation& operation, const Deadline& deadline);

  CheckingOptions options_;
  std::mutex mutex_;
  std::uint64_t history_ = 0;  // a hash of all calls so far, in order
  std::int64_t calls_ = 0;
  std::optional<Error> failed_;
};

}  // namespace shardlight::comm
