#include "shardlight/python/options.h"

#include <pybind11/stl.h>

#include <string>

#include "shardlight/engine/options.h"

namespace shardlight::python {
namespace {

namespace py = pybind11;
using engine::Options;

plan::ReduceSetting reduce_of(const std::string& text) {
  for (const auto setting : {plan::ReduceSetting::kDefault, plan::ReduceSetting::kOnce,
                             plan::ReduceSetting::kEveryMicroStep}) {
    if (text == plan::name_of(setting)) return setting;
  }
  throw Error::user("reduce", text, "default, once or every-micro-step");
}

plan::GradientDtype grad_dtype_of(const std::string& text) {
  for (const auto dtype : {plan::GradientDtype::kFp32, plan::GradientDtype::kCompute}) {
    if (text == plan::name_of(dtype)) return dtype;
  }
  throw Error::user("grad_dtype", text, "fp32 or compute");
}

comm::ReduceOrder order_of(const std::string& text, std::int64_t group) {
  if (text == "linear") return {};
  if (text == "tree") return {.kind = comm::ReduceOrderKind::kTree};
  if (text == "grouped") return {.kind = comm::ReduceOrderKind::kGrouped, .group = group};
  throw Error::user("order", text, "linear, tree or grouped");
}

void add_bytes(py::class_<Options>& options, const char* name, Bytes Options::*field) {
  options.def_property(
      name, [field](const Options& x) { return (x.*field).value(); },
      [field](Options& x, std::int64_t value) { x.*field = Bytes(value); });
}

}  // namespace

void define_options(py::module_& module) {
  py::class_<Options> options(module, "Options");
  options.def(py::init<>())
      .def_readwrite("stage", &Options::stage)
      .def_readwrite("shared_units", &Options::shared_units)
      .def_readwrite("accumulation", &Options::accumulation)
      .def_readwrite("reproducible", &Options::reproducible)
      .def_readwrite("clip_norm", &Options::clip_norm)
      .def_readwrite("seed", &Options::seed)
      .def_readwrite("retain", &Options::retain)
      .def_readwrite("synchronize_buffers", &Options::synchronize_buffers)
      .def_readwrite("sanity_steps", &Options::sanity_steps)
      .def_readwrite("ranks", &Options::ranks);
  for (const auto& [name, field] : {std::pair("unit_bytes", &Options::unit_bytes),
                                    std::pair("bucket_bytes", &Options::bucket_bytes),
                                    std::pair("prefetch_bytes", &Options::prefetch_bytes)}) {
    add_bytes(options, name, field);
  }
  options
      .def_property(
          "gathered_bytes",
          [](const Options& x) -> std::optional<std::int64_t> {
            if (!x.gathered_bytes) return std::nullopt;
            return x.gathered_bytes->value();
          },
          [](Options& x, std::optional<std::int64_t> value) {
            x.gathered_bytes.reset();
            if (value) x.gathered_bytes = Bytes(*value);
          })
      .def_property(
          "deadline", [](const Options& x) { return x.deadline.count(); },
          [](Options& x, double value) { x.deadline = Seconds(value); })
      .def_property(
          "reduce", [](const Options& x) { return std::string(plan::name_of(x.reduce)); },
          [](Options& x, const std::string& value) { x.reduce = reduce_of(value); })
      .def_property(
          "grad_dtype", [](const Options& x) { return std::string(plan::name_of(x.grad_dtype)); },
          [](Options& x, const std::string& value) { x.grad_dtype = grad_dtype_of(value); })
      .def("set_order", [](Options& x, const std::string& kind,
                           std::int64_t group) { x.order = order_of(kind, group); })
      .def("set_loss_scaling",
           [](Options& x, double initial, std::int64_t growth_interval) {
             x.loss_scaling = {.initial = initial, .growth_interval = growth_interval};
           })
      .def("set_debug", [](Options& x, bool poison, std::optional<std::uint64_t> delay_seed,
                           double delay_most) {
        x.debug = {.poison = poison, .delay_seed = delay_seed, .delay_most = Seconds(delay_most)};
      });
}

}  // namespace shardlight::python
