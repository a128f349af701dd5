// The Python module shardlight._engine: the engine of C++ as it is, without what Python users
// expect around it, which is python/shardlight. Calls that may wait for other ranks let go of the
// GIL.
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "shardlight/engine/building_scope.h"
#include "shardlight/engine/engine.h"
#include "shardlight/python/errors.h"
#include "shardlight/python/options.h"
#include "shardlight/python/python_optimizer.h"
#include "shardlight/python/ranks.h"
#include "shardlight/python/reports.h"

namespace shardlight::python {
namespace {

namespace py = pybind11;
using engine::Engine;

constexpr auto kNoGil = py::call_guard<py::gil_scoped_release>();

using engine::BuildingScope;

std::unique_ptr<Engine> make_built_engine(BuildingScope& scope,
                                          const Engine::NamedTensors& parameters,
                                          const Engine::NamedTensors& buffers,
                                          const PythonOptimizer& optimizer,
                                          const engine::Options& options) {
  const engine::Optimizer taken = optimizer_of(optimizer);
  const py::gil_scoped_release released;
  return std::make_unique<Engine>(std::move(scope), parameters, buffers, taken, options);
}

std::unique_ptr<Engine> make_engine(const Engine::NamedTensors& parameters,
                                    const Engine::NamedTensors& buffers,
                                    const PythonOptimizer& optimizer,
                                    const engine::Options& options) {
  const engine::Optimizer taken = optimizer_of(optimizer);
  const py::gil_scoped_release released;
  return std::make_unique<Engine>(parameters, buffers, taken, options);
}

// As where an exception is thrown through an engine's end: it waits for nobody, and the others are
// told that this rank has left.
void leave(Engine& engine) {
  try {
    const Engine left = std::move(engine);
    throw Error::user("engine", "left", "");
  } catch (const Error&) {
    return;
  }
}

// A scope that Python enters and leaves.
class Scope {
 public:
  explicit Scope(std::shared_ptr<void> held) : held_(std::move(held)) {}
  void end() { held_.reset(); }

 private:
  std::shared_ptr<void> held_;
};

Scope gathered(Engine& engine, const std::vector<at::Tensor>& parameters, bool write) {
  const auto access = write ? Engine::Access::kWrite : Engine::Access::kRead;
  return Scope(std::make_shared<Engine::Gathered>(engine.gathered(parameters, access)));
}

void define_engine(py::module_& module) {
  py::class_<BuildingScope>(module, "BuildingScope")
      .def(py::init([](const engine::Options& options) {
             return BuildingScope(options, BuildingScope::Random::kOfRank0);
           }),
           kNoGil)
      .def("end", &BuildingScope::end, kNoGil)
      .def("check", [](const BuildingScope& scope) {
        if (const auto error = scope.error()) throw Error(*error);
      });
  py::class_<Scope>(module, "Scope").def("end", &Scope::end, kNoGil);
  py::class_<Engine::FullState>(module, "FullState").def("next", &Engine::FullState::next, kNoGil);
  py::class_<Engine>(module, "Engine")
      .def(py::init(&make_engine))
      .def(py::init(&make_built_engine))
      .def("backward", &Engine::backward, kNoGil)
      .def("scaled", &Engine::scaled, kNoGil)
      .def("step",
           [](Engine& engine) {
             auto report = [&] {
               const py::gil_scoped_release released;
               return engine.step();
             }();
             return as_dict(report);
           })
      .def("join", &Engine::join, kNoGil)
      .def("no_sync", [](Engine& engine) { return Scope(engine.no_sync()); })
      .def("gathered", &gathered, kNoGil)
      .def("gradient", &Engine::gradient, kNoGil)
      .def("optimizer_state", &Engine::optimizer_state, kNoGil)
      // The engine outlives it.
      .def("full_state", &Engine::full_state, py::keep_alive<0, 1>())
      .def("memory", [](const Engine& engine) { return as_dict(engine.memory()); })
      .def("traffic", [](const Engine& engine) { return as_dict(engine.traffic()); })
      .def("plan", [](const Engine& engine) { return as_dict(engine.plan()); })
      .def_property_readonly("rank", [](const Engine& engine) { return engine.rank().value(); })
      .def_property_readonly("world", &Engine::world)
      .def("close", &Engine::close, kNoGil)
      .def("leave", &leave, kNoGil);
}

}  // namespace
}  // namespace shardlight::python

PYBIND11_MODULE(_engine, module) {
  using namespace shardlight::python;  // NOLINT(google-build-using-namespace): the module's body
  define_errors(module);
  define_options(module);
  define_ranks(module);
  pybind11::class_<PythonOptimizer>(module, "PythonOptimizer")
      .def(pybind11::init([](std::string name, std::string settings, bool elementwise,
                             pybind11::object make) {
        return PythonOptimizer{std::move(name), std::move(settings), elementwise, std::move(make)};
      }));
  define_engine(module);
}
