#include "shardlight/plan/precision.h"

namespace shardlight::plan {
namespace {

constexpr std::int64_t kFp32StateBytes = 4;

std::int64_t moment_bytes(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdam:
      return 2 * kFp32StateBytes;
    case Optimizer::kSgdMomentum:
      return kFp32StateBytes;
    case Optimizer::kSgd:
      return 0;
  }
  return 0;
}

}  // namespace

std::string_view name_of(Precision precision) {
  return precision == Precision::kMixed ? "mixed" : "fp32";
}

std::string_view name_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdam:
      return "adam";
    case Optimizer::kSgdMomentum:
      return "sgd-momentum";
    case Optimizer::kSgd:
      return "sgd";
  }
  return "?";
}

std::string_view name_of(GradientDtype dtype) {
  return dtype == GradientDtype::kCompute ? "compute" : "fp32";
}

StateBytes state_bytes(Precision precision, GradientDtype gradients, Optimizer optimizer) {
  const bool mixed = precision == Precision::kMixed;
  const std::int64_t parameter = mixed ? 2 : kFp32StateBytes;
  return {.parameter = parameter,
          .gradient = gradients == GradientDtype::kCompute ? parameter : kFp32StateBytes,
          .optimizer = moment_bytes(optimizer) + (mixed ? kFp32StateBytes : 0)};
}

}  // namespace shardlight::plan
