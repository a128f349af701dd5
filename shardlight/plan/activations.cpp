#include "shardlight/plan/activations.h"

#include <fmt/format.h>

#include <cmath>

namespace shardlight::plan {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr double kMaxBytes = 4.6e18;  // just below 2^62

// Dimensions as doubles: products of five of them pass 64 bits, and are exact below 2^53.
struct Dimensions {
  double s, b, h, a, layers, v, e;
};

Dimensions dimensions_of(const TransformerShape& shape, const ActivationRequest& request) {
  return {.s = static_cast<double>(request.sequence),
          .b = static_cast<double>(request.micro_batch),
          .h = static_cast<double>(shape.hidden),
          .a = static_cast<double>(shape.heads),
          .layers = static_cast<double>(shape.layers),
          .v = static_cast<double>(shape.vocabulary),
          .e = static_cast<double>(request.bytes_per_element)};
}

Status check(const TransformerShape& shape, const ActivationRequest& request) {
  if (request.micro_batch < 1) {
    return user_error("micro_batch", fmt::to_string(request.micro_batch), "1 or more");
  }
  const bool too_long = shape.positions > 0 && request.sequence > shape.positions;
  if (request.sequence < 1 || too_long) {
    return user_error("sequence", fmt::to_string(request.sequence),
                      shape.positions > 0
                          ? fmt::format("1 to {}, the model's positions", shape.positions)
                          : "1 or more");
  }
  if (request.rule == ActivationRule::kZero && request.checkpointing == Checkpointing::kSelective) {
    return user_error("checkpointing", "selective",
                      "none or full with the zero rule, which does not tell the parts of a layer "
                      "apart");
  }
  return {};
}

struct Estimate {
  double layers = 0, outside = 0, recomputed = 0, logit_gradient = 0;
};

Estimate by_korthikanti(const Dimensions& d, Checkpointing checkpointing) {
  const double linear = d.s * d.b * d.h * (16 * d.e + 2);
  const double attention = d.a * d.s * d.s * d.b * (2 * d.e + 1);
  Estimate estimate;
  switch (checkpointing) {
    case Checkpointing::kNone:
      estimate.layers = d.layers * (linear + attention);
      break;
    case Checkpointing::kSelective:
      estimate.layers = d.layers * linear;
      estimate.recomputed = attention;
      break;
    case Checkpointing::kFull:
      estimate.layers = d.layers * d.e * d.s * d.b * d.h;
      estimate.recomputed = linear + attention;
      break;
  }
  const double logits = kFp32Bytes * d.s * d.b * d.v;
  estimate.outside = 2 * d.e * d.s * d.b * d.h + logits;
  estimate.logit_gradient = logits;
  return estimate;
}

Estimate by_zero(const Dimensions& d, Checkpointing checkpointing) {
  const double all = 12 * d.h * d.b * d.s * d.layers * d.e;
  return {.layers = checkpointing == Checkpointing::kFull ? all / std::sqrt(d.layers) : all};
}

}  // namespace

std::string_view name_of(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::kNone:
      return "none";
    case Checkpointing::kSelective:
      return "selective";
    case Checkpointing::kFull:
      return "full";
  }
  return "?";
}

std::string_view name_of(ActivationRule rule) {
  return rule == ActivationRule::kKorthikanti ? "korthikanti" : "zero";
}

Result<Activations> activations(const TransformerShape& shape, const ActivationRequest& request) {
  SHARDLIGHT_TRY_STATUS(check(shape, request));
  const Dimensions d = dimensions_of(shape, request);
  const Estimate estimate = request.rule == ActivationRule::kKorthikanti
                                ? by_korthikanti(d, request.checkpointing)
                                : by_zero(d, request.checkpointing);
  const double sum =
      estimate.layers + estimate.outside + estimate.recomputed + estimate.logit_gradient;
  if (sum > kMaxBytes) {
    return user_error("micro_batch",
                      fmt::format("{} of {} tokens", request.micro_batch, request.sequence),
                      "less than 2^62 bytes of activations");
  }
  const auto bytes = [](double value) { return Bytes(std::llround(value)); };
  Activations result{.layers = bytes(estimate.layers),
                     .outside = bytes(estimate.outside),
                     .extra_forward = request.checkpointing == Checkpointing::kFull ? 1.0 : 0.0};
  if (request.rule == ActivationRule::kKorthikanti) {
    result.recomputed = bytes(estimate.recomputed);
    result.logit_gradient = bytes(estimate.logit_gradient);
  }
  return result;
}

}  // namespace shardlight::plan
