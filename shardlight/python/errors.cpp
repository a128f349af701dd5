#include "shardlight/python/errors.h"

#include <array>
#include <exception>
#include <string>

#include "shardlight/base/error.h"

namespace shardlight::python {
namespace {

namespace py = pybind11;

// By category; they live as long as the interpreter.
std::array<PyObject*, 3> error_types = {};

py::handle type_of(ErrorCategory category) {
  return error_types.at(static_cast<std::size_t>(category));
}

void raise(const Error& error) {
  const py::handle type = type_of(error.category());
  py::object raised = type(error.message());
  raised.attr("field") = error.field();
  raised.attr("value") = error.value();
  raised.attr("allowed") = error.allowed();
  raised.attr("unit") = error.site().unit;
  raised.attr("operation") = error.site().operation;
  raised.attr("rank") =
      error.site().rank ? py::object(py::int_(error.site().rank->value())) : py::none();
  PyErr_SetObject(type.ptr(), raised.ptr());
}

}  // namespace

void define_errors(py::module_& module) {
  const py::object base = py::exception<Error>(module, "Error", PyExc_RuntimeError);
  const auto derived = [&](const char* name, const py::tuple& bases) {
    const std::string full = "shardlight." + std::string(name);
    PyObject* const type = PyErr_NewException(full.c_str(), bases.ptr(), nullptr);
    module.add_object(name, type);
    return type;
  };
  base.attr("__module__") = "shardlight";
  const auto value_error = py::reinterpret_borrow<py::object>(PyExc_ValueError);
  error_types.at(static_cast<std::size_t>(ErrorCategory::kUser)) =
      derived("UserError", py::make_tuple(base, value_error));
  error_types.at(static_cast<std::size_t>(ErrorCategory::kEnvironment)) =
      derived("JobError", py::make_tuple(base));
  error_types.at(static_cast<std::size_t>(ErrorCategory::kBug)) =
      derived("BugError", py::make_tuple(base));
  // By value, as pybind11 calls it.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace shardlight::python
