#include "shardlight/python/reports.h"

#include <string>

namespace shardlight::python {
namespace {

namespace py = pybind11;

py::dict times(const engine::CallTimes& x) {
  py::dict d;
  d["calls"] = x.calls;
  d["total"] = x.total.count();
  d["p50"] = x.p50.count();
  d["p99"] = x.p99.count();
  return d;
}

py::dict level(const memory::Level& x) {
  py::dict d;
  d["now"] = x.now.value();
  d["peak"] = x.peak.value();
  return d;
}

py::dict bytes(const comm::TrafficCount& x) {
  py::dict d;
  d["gathered"] = x.gathered.value();
  d["reduced"] = x.reduced.value();
  return d;
}

}  // namespace

py::dict as_dict(const engine::StepReport& report) {
  py::dict d;
  d["step"] = report.step;
  d["gradient_norm"] = report.gradient_norm;
  d["skipped"] = report.skipped;
  d["loss_scale"] = report.loss_scale;
  return d;
}

py::dict as_dict(const engine::MemoryReport& report) {
  py::dict tags;
  for (const engine::TagReport& tag : report.tags) {
    py::dict d = level(tag.bytes);
    d["ledger"] = tag.ledger ? py::object(py::int_(tag.ledger->value())) : py::none();
    tags[py::str(std::string(name_of(tag.tag)))] = d;
  }
  py::dict d;
  d["tags"] = tags;
  d["total"] = level(report.total);
  return d;
}

py::dict as_dict(const engine::TrafficReport& report) {
  py::dict d;
  d["moved"] = bytes(report.moved);
  d["planned"] = bytes(report.planned);
  d["gathers"] = report.gathers;
  d["gathers_ahead"] = report.gathers_ahead;
  d["unforeseen"] = report.unforeseen;
  d["gather_waited"] = report.gather_waited.count();
  d["reduce_waited"] = report.reduce_waited.count();
  d["gather"] = times(report.gather);
  d["reduce"] = times(report.reduce);
  d["gathered_peak"] = report.gathered_peak.value();
  return d;
}

py::dict as_dict(const engine::PlanReport& report) {
  py::list units, stages;
  for (const engine::UnitPlan& unit : report.units) {
    py::dict d;
    d["name"] = unit.name;
    d["elements"] = unit.elements.value();
    d["bytes"] = unit.bytes.value();
    d["trainable"] = unit.trainable;
    units.append(d);
  }
  for (const engine::StagePlan& stage : report.stages) {
    py::dict d;
    d["parameters"] = stage.parameters.value();
    d["gradients"] = stage.gradients.value();
    d["master"] = stage.master.value();
    d["optimizer"] = stage.optimizer.value();
    d["gathered"] = stage.gathered.value();
    d["traffic"] = bytes(stage.traffic);
    stages.append(d);
  }
  py::dict d;
  d["units"] = units;
  d["stages"] = stages;
  return d;
}

}  // namespace shardlight::python
