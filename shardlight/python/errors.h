// Errors at the border to Python: shardlight.Error and its kinds, each with the parts of a
// shardlight::Error as attributes. Called as the module is made; throwing needs nothing then.
#pragma once

#include <pybind11/pybind11.h>

namespace shardlight::python {

// Adds Error (a RuntimeError), UserError (also a ValueError), JobError and BugError to the
// module.
void define_errors(pybind11::module_& module);

}  // namespace shardlight::python
