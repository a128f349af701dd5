#include "shardlight/python/python_optimizer.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "shardlight/engine/segment_optimizer.h"

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

class SegmentsOfPython final : public engine::SegmentOptimizer {
 public:
  SegmentsOfPython(std::string name, std::span<const Segment> segments,
                   std::shared_ptr<py::object> stepper, bool divides)
      : name_(std::move(name)),
        segments_(segments),
        stepper_(std::move(stepper)),
        divides_(divides) {
    for (const Segment& segment : segments) memory_.push_back(segment.value.const_data_ptr());
  }

  // The kernels know one divisor a step. Units whose gradients the user changed have none; then all
  // are divided here.
  Status step(std::span<const std::size_t> taking_part, const Factors& factors) override {
    const bool first = taking_part_.empty();
    for (const std::size_t i : taking_part) {
      segments_[i].value.mutable_grad() = segments_[i].gradient;
    }
    if (first) {
      divisor_ = factors.divisor;
    } else if (factors.divisor != divisor_) {
      divide(taking_part_, std::exchange(divisor_, std::nullopt));
      divide(taking_part, factors.divisor);
    }
    taking_part_.insert(taking_part_.end(), taking_part.begin(), taking_part.end());
    return {};
  }

  Status end_step(double /*lr_factor*/) override {
    if (taking_part_.empty()) return {};
    SHARDLIGHT_TRY_STATUS(caught(name_, [&] { stepper_->attr("step")(divisor_); }));
    for (const std::size_t i : taking_part_) SHARDLIGHT_TRY_STATUS(check_memory(i));
    taking_part_.clear();
    divisor_.reset();
    return {};
  }
  bool by_unit() const override { return false; }
  bool divides() const override { return divides_; }

  Result<std::uint64_t> settings_hash() override {
    return caught(name_, [&] { return stepper_->attr("settings_hash")().cast<std::uint64_t>(); });
  }

 private:
  void divide(std::span<const std::size_t> segments, std::optional<double> divisor) const {
    if (!divisor) return;
    for (const std::size_t i : segments) segments_[i].value.mutable_grad().div_(*divisor);
  }

  // Both lie in memory of the engine's, which goes on to be used.
  Status check_memory(std::size_t i) const {
    segments_[i].value.mutable_grad().reset();
    if (segments_[i].value.const_data_ptr() == memory_[i]) return {};
    return user_error("optimizer", name_,
                      "one that changes values in place and sets no other memory");
  }

  std::string name_;
  std::span<const Segment> segments_;
  std::shared_ptr<py::object> stepper_;
  bool divides_;
  std::vector<const void*> memory_;  // of values, by segment
  std::vector<std::size_t> taking_part_;
  std::optional<double> divisor_;
};

class ClassOfPython final : public engine::OptimizerClass {
 public:
  ClassOfPython(std::string name, py::object make)
      : name_(std::move(name)), make_(shared(std::move(make))) {}

  Result<std::unique_ptr<engine::SegmentOptimizer>> over(
      std::span<const Segment> segments) const override {
    std::vector<std::string> names;
    std::vector<at::Tensor> values;
    for (const Segment& segment : segments) {
      segment.value.requires_grad_();
      names.emplace_back(segment.name);
      values.push_back(segment.value);
    }
    std::shared_ptr<py::object> stepper;
    bool divides = false;
    SHARDLIGHT_TRY_STATUS(caught(name_, [&] {
      stepper = shared((*make_)(names, values));
      divides = stepper->attr("divides").cast<bool>();
    }));
    return std::make_unique<SegmentsOfPython>(name_, segments, std::move(stepper), divides);
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
