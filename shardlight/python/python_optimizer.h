// A torch.optim optimizer of Python as the engine's: Python makes an instance of the user's class
// over this rank's segments (python/shardlight/_optimizers.py), and the engine steps through it.
// Objects of Python are made, used and let go under the GIL, which the engine's callers do not
// hold.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "shardlight/engine/options.h"

namespace shardlight::python {

struct PythonOptimizer {
  std::string name;          // of the class, for messages
  std::string settings;      // as text, for ranks to compare at the start
  bool elementwise = false;  // it is known to be
  // make(names, values): a stepper over segments, of the parameters with these names, with
  //   divides: whether step() divides gradients itself
  //   settings_hash() -> int, below 2^64
  //   step(divisor | None): the gradients are in .grad
  pybind11::object make;
};

engine::Optimizer optimizer_of(const PythonOptimizer& optimizer);

}  // namespace shardlight::python
