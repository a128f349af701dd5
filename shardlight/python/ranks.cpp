#include "shardlight/python/ranks.h"

#include "shardlight/engine/ranks.h"

#include "shardlight/engine/or_throw.h"

#ifdef USE_DISTRIBUTED
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "shardlight/engine/c10d/c10d_world.h"
#endif

namespace shardlight::python {

namespace py = pybind11;

void define_ranks(py::module_& module) {
  py::class_<engine::Ranks>(module, "Ranks")
      .def_property_readonly("rank", [](const engine::Ranks& ranks) { return ranks.rank.value(); })
      .def_readonly("world", &engine::Ranks::world);
  module.def("ranks_of_host", [](double deadline) {
    return engine::or_throw(engine::ranks_of_host(Seconds(deadline)));
  });
#ifdef USE_DISTRIBUTED
  module.def(
      "ranks_of_process_group", [](const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const c10::intrusive_ptr<c10d::Store>& store, double deadline) {
        return engine::or_throw(engine::ranks_of_process_group(group, store, Seconds(deadline)));
      });
#endif
}

}  // namespace shardlight::python
