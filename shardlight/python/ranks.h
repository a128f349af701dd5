// The ranks of an engine for Python: those of this host by its launcher, or those of a
// torch.distributed process group. engine::Ranks is passed on as it is.
#pragma once

#include <pybind11/pybind11.h>

namespace shardlight::python {

void define_ranks(pybind11::module_& module);

}  // namespace shardlight::python
