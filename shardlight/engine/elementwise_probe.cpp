#include "shardlight/engine/elementwise_probe.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cstring>

#include "shardlight/base/random.h"
#include "shardlight/engine/random_state.h"
#include "shardlight/engine/segment_optimizer.h"
#include "shardlight/engine/torch_meter.h"

namespace shardlight::engine {
namespace {

constexpr const char* kAllowed =
    "a class that steps each element by itself, as SGD, Adam, AdamW, Adagrad and RMSprop do: a "
    "rank steps its part of a parameter, so norms and factors over whole tensors (LAMB, Adafactor, "
    "Muon), random numbers and closures (LBFGS) are not; in a trial ";

// Matrices too, since some optimizers treat them otherwise than vectors.
const std::vector<std::vector<std::int64_t>> kShapes = {{1037}, {17, 61}, {8, 5, 3, 9}};
// Where pieces begin: on whole blocks, as those of ranks.
constexpr std::array<std::int64_t, 4> kCuts = {0, 64, 256, 640};
// Of each step's gradients, since some have thresholds.
constexpr std::array kScales = {1.0, 1e-3, 1e3, 1.0, 0.1};
constexpr double kLr = 0.01;  // the user's may be 0 at first

void fill(const at::Tensor& tensor, std::uint64_t stream, double scale) {
  const CounterRandom random(/*seed=*/64, stream);
  auto* const values = tensor.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double uniform = random.uniform(static_cast<std::uint64_t>(i));
    values[i] = static_cast<float>((2 * uniform - 1) * scale);
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// A tensor and its gradient, stepped whole or in pieces.
class Trial {
 public:
  Trial(at::IntArrayRef shape, const StepSettings& settings)
      : settings_(settings), value_(at::empty(shape)), gradient_(at::empty(shape)) {
    fill(value_, /*stream=*/0, 1);
  }

  // What its states take an element. Counters of a whole tensor are less than a byte of that.
  Result<std::int64_t> step_whole(const OptimizerClass& optimizer_class) {
    const Unmetered kept;
    const auto account = std::make_shared<memory::Account>();
    const TorchMeter meter(account);
    Stepped whole;
    whole.segments.push_back(segment(0, value_.sizes()));
    {
      const KeptAllocations states(meter, memory::Tag::kOptimizer);
      SHARDLIGHT_TRY_STATUS(steps(optimizer_class, {&whole}, /*fresh_gradients=*/true));
    }
    return account->level(memory::Tag::kOptimizer).now.value() / value_.numel();
  }
  // Every other piece by another one, as by two ranks, which take part in another order.
  Status step_cut(const OptimizerClass& optimizer_class) {
    Stepped first, second;
    for (std::size_t i = 0; i < kCuts.size(); ++i) {
      const std::int64_t end = i + 1 < kCuts.size() ? kCuts.at(i + 1) : value_.numel();
      Stepped& stepped = i % 2 == 0 ? first : second;
      stepped.segments.push_back(segment(kCuts.at(i), {end - kCuts.at(i)}));
    }
    return steps(optimizer_class, {&second, &first}, /*fresh_gradients=*/false);
  }
  const at::Tensor& value() const { return value_; }

 private:
  struct Stepped {
    std::vector<Segment> segments;
    std::unique_ptr<SegmentOptimizer> optimizer;
  };

  // Over the tensors' memory, with storages of their own as the engine's have.
  Segment segment(std::int64_t begin, at::IntArrayRef shape) const {
    const auto part = [&](const at::Tensor& tensor) {
      return at::from_blob(tensor.mutable_data_ptr<float>() + begin, shape, at::kFloat);
    };
    return {.settings = settings_, .steps = 0, .value = part(value_), .gradient = part(gradient_)};
  }

  // Fresh gradients are those of a plain process. Else their memory is used again, as the engine
  // does, which shows where a class keeps .grad from step to step.
  Status steps(const OptimizerClass& optimizer_class, const std::vector<Stepped*>& all,
               bool fresh_gradients) {
    for (Stepped* one : all) {
      SHARDLIGHT_TRY(one->optimizer, optimizer_class.over(one->segments));
    }
    for (std::size_t step = 0; step < kScales.size(); ++step) {
      fill(gradient_, step + 1, kScales.at(step));
      for (Stepped* one : all) {
        for (std::size_t i = 0; i < one->segments.size(); ++i) {
          ++one->segments[i].steps;
          if (fresh_gradients) one->segments[i].gradient = gradient_.clone();
          SHARDLIGHT_TRY_STATUS(one->optimizer->step(std::array{i}, {}));
        }
        SHARDLIGHT_TRY_STATUS(one->optimizer->end_step(/*lr_factor=*/1));
        for (Segment& segment : one->segments) {
          if (fresh_gradients) segment.gradient.reset();
        }
      }
    }
    return {};
  }

  StepSettings settings_;
  at::Tensor value_, gradient_;
};

Status refused(const TorchOptimizer& optimizer, const std::string& found) {
  return user_error("optimizer", optimizer.name, kAllowed + found);
}

Status try_out(TorchOptimizer& optimizer, const std::vector<std::int64_t>& shape) {
  const StepSettings settings{.lr = kLr, .weight_decay = optimizer.weight_decay.value_or(0)};
  Trial whole(shape, settings);
  const at::Tensor before = whole.value().clone();
  const auto state_bytes = whole.step_whole(*optimizer.optimizer_class);
  if (!state_bytes) return refused(optimizer, "it failed: " + state_bytes.error().allowed());
  optimizer.state_bytes = *state_bytes;
  if (optimizer.elementwise) return {};
  const std::string declare = "; `elementwise` says that it does nevertheless";
  if (same_bits(whole.value(), before)) {
    return refused(optimizer, "it changed nothing, which shows nothing" + declare);
  }
  Trial cut(shape, settings);
  if (auto stepped = cut.step_cut(*optimizer.optimizer_class); !stepped) {
    return refused(optimizer, "it failed: " + stepped.error().allowed());
  }
  if (same_bits(whole.value(), cut.value())) return {};
  return refused(optimizer, "a tensor in pieces came out otherwise than as a whole" + declare);
}

}  // namespace

Status check_elementwise(Optimizer& optimizer) {
  auto* const torch = std::get_if<TorchOptimizer>(&optimizer);
  if (torch == nullptr) return {};
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unrecorded;
  const KeptRandomState kept;
  for (const auto& shape : kShapes) SHARDLIGHT_TRY_STATUS(try_out(*torch, shape));
  return {};
}

}  // namespace shardlight::engine
