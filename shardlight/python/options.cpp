#include "shardlight/python/options.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <variant>

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

// A name, or one and a size.
using OrderText = std::variant<std::string, std::pair<std::string, std::int64_t>>;

comm::ReduceOrder order_of(const OrderText& order) {
  if (const auto* sized = std::get_if<std::pair<std::string, std::int64_t>>(&order)) {
    const auto& [name, group] = *sized;
    if (name == "grouped") return {.kind = comm::ReduceOrderKind::kGrouped, .group = group};
    throw Error::user("order", "(" + name + ", " + std::to_string(group) + ")",
                      "(\"grouped\", SIZE), linear or tree");
  }
  const auto& name = std::get<std::string>(order);
  if (name == "linear") return {};
  if (name == "tree") return {.kind = comm::ReduceOrderKind::kTree};
  throw Error::user("order", name, "linear, tree or (\"grouped\", SIZE)");
}

OrderText name_of(const comm::ReduceOrder& order) {
  if (order.kind == comm::ReduceOrderKind::kGrouped)
    return std::pair(std::string("grouped"), order.group);
  return std::string(order.kind == comm::ReduceOrderKind::kTree ? "tree" : "linear");
}

void define_nested(py::class_<Options>& options) {
  options
      .def_property(
          "order", [](const Options& x) { return name_of(x.order); },
          [](Options& x, const OrderText& value) { x.order = order_of(value); })
      .def_property(
          "loss_scale", [](const Options& x) { return x.loss_scaling.initial; },
          [](Options& x, double value) { x.loss_scaling.initial = value; })
      .def_property(
          "loss_scale_growth_interval",
          [](const Options& x) { return x.loss_scaling.growth_interval; },
          [](Options& x, std::int64_t value) { x.loss_scaling.growth_interval = value; })
      .def_property(
          "poison", [](const Options& x) { return x.debug.poison; },
          [](Options& x, bool value) { x.debug.poison = value; });
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
          [](Options& x, const std::string& value) { x.grad_dtype = grad_dtype_of(value); });
  define_nested(options);
}

}  // namespace shardlight::python
