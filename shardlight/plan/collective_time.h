// How long collectives take: the α-β-γ model. α seconds a message, β seconds a byte, γ seconds a
// byte that is also reduced; N ranks; n bytes.
//
// Ring all-gather: (N-1)α + (N-1)/N nβ; reduce-scatter: + (N-1)/N nγ; all-reduce: both. Cut into k
// messages each costs (k-1)(N-1)α more and no byte more. Source: Thakur, Rabenseifner, Gropp,
// "Optimization of Collective Communication Operations in MPICH" (2005).
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"
#include "shardlight/plan/traffic.h"

namespace shardlight::plan {

// Of a message, where none is given. No source: an assumption of ours, shown in every report.
inline constexpr Seconds kAssumedLatency{5e-6};

struct Interconnect {
  std::string name;
  double bytes_per_second = 0;        // 1/β, of one link in one direction
  Seconds latency = kAssumedLatency;  // α
  Seconds reduce_a_byte{0};           // γ
};

// Bandwidths as in the ZeRO and ZeRO-Infinity papers: nvswitch 300 GB/s a link, ib-edr 12.5 GB/s.
const std::vector<Interconnect>& interconnect_presets();
// Errors (user, `interconnect`): unknown, with the nearest name.
Result<Interconnect> interconnect_preset(const std::string& name);

// One pass of `bytes` cut into `messages` collectives. 0 for one rank.
Seconds ring_time(Collective collective, double bytes, std::int64_t ranks, std::int64_t messages,
                  const Interconnect& link);

// All passes of a step, each cut into `messages`.
Seconds traffic_time(const std::vector<Pass>& passes, Count parameters, std::int64_t ranks,
                     std::int64_t messages, const Interconnect& link);

// n/t x (N-1)/N: the rate at which a rank's link is used by a gather or reduce-scatter.
double bus_bandwidth(double bytes, Seconds time, std::int64_t ranks);

}  // namespace shardlight::plan
