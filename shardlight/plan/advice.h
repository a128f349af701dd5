// Advice in words, each sentence with the values it rests on: which stage to use, why the lowest
// that fits is best, and when not to use stage 3. A pure function of the plan; change an input and
// the advice follows (tests/plan/advice_test.cpp flips each).
#pragma once

#include <string>
#include <vector>

#include "shardlight/plan/planner.h"

namespace shardlight::plan {

// What this build can do. Nothing is advised that it cannot.
struct Capabilities {
  bool trains = false;              // has an engine
  bool one_sided_exchange = false;  // has a transport whose gathers need no matching order
};

struct Citation {
  std::string name;   // "stage 2 peak"
  std::string value;  // "16.6 GB", as it stands in the text
};

struct Advice {
  std::string id;  // stable, for programs: "use-lowest", "not-3-traffic-time", …
  std::string text;
  std::vector<Citation> cites;
};

// In the order to be read: what fits, then what speaks against stage 3, then what this build lacks.
std::vector<Advice> advise(const Plan& plan, const Capabilities& build);

// The lowest stage that fits in the device memory; nothing where none does or none was given.
std::optional<int> lowest_fitting_stage(const Plan& plan);

}  // namespace shardlight::plan
