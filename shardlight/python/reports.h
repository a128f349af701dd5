// What the engine reports, as dictionaries of Python: the same names, bytes and seconds as numbers,
// None for what there is not.
#pragma once

#include <pybind11/pybind11.h>

#include "shardlight/engine/engine.h"

namespace shardlight::python {

pybind11::dict as_dict(const engine::StepReport& report);
// {"tags": {tag: {"now", "peak", "ledger"}}, "total": {"now", "peak"}}
pybind11::dict as_dict(const engine::MemoryReport& report);
pybind11::dict as_dict(const engine::TrafficReport& report);
pybind11::dict as_dict(const engine::PlanReport& report);

}  // namespace shardlight::python
