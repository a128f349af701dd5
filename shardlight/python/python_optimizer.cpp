#include "shardlight/python/python_optimizer.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "shardlight/engine/steps_together.h"

namespace shardlight::python {
namespace {

namespace py = pybind11;
using engine::Segment;

// Calls it under the GIL; what Python raises, as an error by the class's name.
template <class F>
auto caught(const std::string& name, const F& f) -> Result<decltype(f())> {
  const py::gil_scoped_acquire gil;
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return {};
    } else {
      return f();
    }
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C and the like
    const std::string what = py::str(error.value());
    const std::string type = py::str(error.type().attr("__name__"));
    return user_error(
        "optimizer", name,
        "one that needs no closure and whose steps do not fail; it said: " + type + ": " + what);
  } catch (const c10::Error& error) {
    return user_error(
        "optimizer", name,
        std::string("one whose steps do not fail; it said: ") + error.what_without_backtrace());
  }
}

// Ended by whoever ends the engine, with the GIL or without.
std::shared_ptr<py::object> shared(py::object object) {
  return {new py::object(std::move(object)), [](const py::object* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

class SegmentsOfPython final : public engine::StepsTogether {
 public:
  SegmentsOfPython(std::string name, std::span<const Segment> segments)
      : StepsTogether(std::move(name), segments) {}

  Status construct(const py::object& make) {
    std::vector<std::string> names;
    std::vector<at::Tensor> values;
    for (const Segment& segment : segments()) {
      names.emplace_back(segment.name);
      values.push_back(segment.value);
    }
    return caught(name(), [&] {
      stepper_ = shared(make(names, values));
      divides_ = stepper_->attr("divides").cast<bool>();
    });
  }

  bool divides() const override { return divides_; }

  Result<std::uint64_t> settings_hash() override {
    return caught(name(), [&] { return stepper_->attr("settings_hash")().cast<std::uint64_t>(); });
  }

 private:
  // The groups of the user's optimizer have every lr.
  Status step_all(double /*lr_factor*/, std::optional<double> divisor) override {
    return caught(name(), [&] { stepper_->attr("step")(divisor); });
  }

  // Python's own hold on a tensor cannot be told from its users'. What the trial does not find of
  // it reads a later step's gradient.
  bool keeps_gradient(const Segment& /*segment*/) const override { return false; }

  std::shared_ptr<py::object> stepper_;
  bool divides_ = false;
};

class ClassOfPython final : public engine::OptimizerClass {
 public:
  ClassOfPython(std::string name, py::object make)
      : name_(std::move(name)), make_(shared(std::move(make))) {}

  Result<std::unique_ptr<engine::SegmentOptimizer>> over(
      std::span<const Segment> segments) const override {
    auto optimizer = std::make_unique<SegmentsOfPython>(name_, segments);
    SHARDLIGHT_TRY_STATUS(optimizer->construct(*make_));
    return optimizer;
  }

 private:
  std::string name_;
  std::shared_ptr<py::object> make_;
};

}  // namespace

engine::Optimizer optimizer_of(const PythonOptimizer& optimizer) {
  return engine::TorchOptimizer{
      .name = optimizer.name,
      .settings = optimizer.settings,
      .lr = std::nullopt,
      .weight_decay = std::nullopt,
      .elementwise = optimizer.elementwise,
      .optimizer_class = std::make_shared<ClassOfPython>(optimizer.name, optimizer.make)};
}

}  // namespace shardlight::python
