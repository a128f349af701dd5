// A stretch of training as an exchange sees it: steps of several micro-steps, over units of all
// shapes and orders, gradients in parts, each rank in an order of its own and on two lanes at once;
// where the transport is not one-sided, all in one random order and on one lane.
// What comes out is compared with the reference bit for bit, and the traffic with its formula.
#pragma once

#include <string>

#include "shardlight/comm/transport.h"
#include "tests/comm/unit_shapes.h"

namespace shardlight::comm {

struct TrainingSteps {
  std::uint64_t seed = 1;
  int steps = 3;
  int rounds = 3;
  int lanes = 2;

  // As one rank; what is wrong, or "".
  std::string run(Transport& transport) const;
};

}  // namespace shardlight::comm
