// The Python module shardlight_c10d_tests: the process group of a test comes from Python
// (ranks.py), the tests are these.
#include <gtest/gtest.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "tests/engine/c10d/meeting.h"

namespace shardlight::engine {
namespace {

namespace py = pybind11;

void meet(std::int64_t rank, std::int64_t world, const c10::intrusive_ptr<c10d::Store>& store,
          const py::function& new_group) {
  meeting() = {.rank = Rank(rank), .world = world, .store = store, .new_group = [=] {
                 const py::gil_scoped_acquire held;
                 return new_group().cast<c10::intrusive_ptr<c10d::ProcessGroup>>();
               }};
}

// All ranks come to the same verdict, so rank 0 alone prints.
int run_tests(const std::string& filter) {
  int count = 1;
  std::string program = "c10d";
  std::vector<char*> arguments = {program.data(), nullptr};
  testing::InitGoogleTest(&count, arguments.data());
  testing::GTEST_FLAG(filter) = filter;
  if (meeting().rank != Rank(0)) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  return RUN_ALL_TESTS();
}

void part() { meeting() = {}; }

}  // namespace
}  // namespace shardlight::engine

PYBIND11_MODULE(shardlight_c10d_tests, module) {
  using namespace shardlight::engine;
  namespace py = pybind11;
  module.def("meet", &meet);
  module.def("part", &part);
  module.def("run_tests", &run_tests, py::call_guard<py::gil_scoped_release>());
  module.def("fault", &fault, py::call_guard<py::gil_scoped_release>());
  module.def("train", &train_as_threads_do, py::call_guard<py::gil_scoped_release>());
  module.def("refresh", &refresh_as_by_hand, py::call_guard<py::gil_scoped_release>());
}
