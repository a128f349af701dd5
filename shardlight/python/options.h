// engine::Options for Python: a class with the fields that Python sets, in units of the engine's
// (bytes, seconds). What they allow the engine says, by the same names.
#pragma once

#include <pybind11/pybind11.h>

namespace shardlight::python {

void define_options(pybind11::module_& module);

}  // namespace shardlight::python
