// A decorator that makes each call start late by a random time, a function of seed, rank and the
// number of the call: to try out timings in tests. Results may not change by a bit. As many threads
// as the inner transport allows.
#pragma once

#include <atomic>

#include "shardlight/base/random.h"
#include "shardlight/comm/decorators/decorator.h"

namespace shardlight::comm {

class Delaying final : public Decorator {
 public:
  // Uniform within 0 and `longest`.
  Delaying(std::unique_ptr<Transport> inner, std::uint64_t seed, Seconds longest)
      : Decorator(std::move(inner)),
        random_(seed, static_cast<std::uint64_t>(rank().value())),
        longest_(longest) {}

 protected:
  Status around(const Operation& operation, const Make& make) override;

 private:
  CounterRandom random_;
  Seconds longest_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace shardlight::comm
