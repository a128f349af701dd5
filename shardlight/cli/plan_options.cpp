#include "shardlight/cli/plan_options.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "shardlight/base/nearest.h"
#include "shardlight/base/quantity.h"
#include "shardlight/cli/device_presets.h"
#include "shardlight/cli/model_source.h"
#include "shardlight/plan/display.h"

namespace shardlight::cli {
namespace {

using plan::PlanRequest;

constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();
constexpr IntegerRange kAnyBytes{1, kMaxInteger};
// Products of a batch are taken in doubles; beyond this no device and no text goes.
constexpr IntegerRange kBatchRange{1, 1'000'000'000};

// One of the values whose name_of() is the text.
template <class Enum, std::size_t kCount>
Result<Enum> choose(const std::string& name, const std::string& text,
                    const std::array<Enum, kCount>& values) {
  std::vector<std::string> names;
  for (const Enum value : values) {
    names.emplace_back(plan::name_of(value));
    if (names.back() == text) return value;
  }
  return user_error(name, text, one_of(names, text));
}

Status ignore(const std::string&, const std::string&, PlanRequest&) { return {}; }

Status apply_ranks(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(request.ranks, parse_count(name, text, {1, layout::kMaxRanks}));
  return {};
}

Status apply_precision(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::Precision;
  SHARDLIGHT_TRY(request.precision,
                 choose(name, text, std::array{Precision::kMixed, Precision::kFp32}));
  return {};
}

Status apply_gradients(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::GradientDtype;
  SHARDLIGHT_TRY(request.gradients,
                 choose(name, text, std::array{GradientDtype::kCompute, GradientDtype::kFp32}));
  return {};
}

Status apply_optimizer(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::Optimizer;
  SHARDLIGHT_TRY(
      request.optimizer,
      choose(name, text, std::array{Optimizer::kAdam, Optimizer::kSgdMomentum, Optimizer::kSgd}));
  return {};
}

Status apply_accumulation(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(request.accumulation_steps,
                 parse_count(name, text, {1, plan::kMaxAccumulationSteps}));
  return {};
}

Status apply_reduce(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::ReduceSetting;
  SHARDLIGHT_TRY(request.reduce, choose(name, text,
                                        std::array{ReduceSetting::kDefault, ReduceSetting::kOnce,
                                                   ReduceSetting::kEveryMicroStep}));
  return {};
}

Status apply_unit_bytes(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(request.unit_bytes, parse_bytes(name, text, {0, kMaxInteger}));
  return {};
}

Status apply_micro_batch(const std::string& name, const std::string& text, PlanRequest& request) {
  if (!request.batch) request.batch.emplace();
  SHARDLIGHT_TRY(request.batch->micro_batch, parse_count(name, text, kBatchRange));
  return {};
}

Status apply_sequence(const std::string& name, const std::string& text, PlanRequest& request) {
  if (!request.batch) request.batch.emplace();
  SHARDLIGHT_TRY(request.batch->sequence, parse_count(name, text, kBatchRange));
  return {};
}

Status apply_checkpointing(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::Checkpointing;
  SHARDLIGHT_TRY(
      request.checkpointing,
      choose(name, text,
             std::array{Checkpointing::kNone, Checkpointing::kSelective, Checkpointing::kFull}));
  return {};
}

Status apply_rule(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::ActivationRule;
  SHARDLIGHT_TRY(
      request.activation_rule,
      choose(name, text, std::array{ActivationRule::kKorthikanti, ActivationRule::kZero}));
  return {};
}

Status apply_device(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(const DevicePreset device, device_preset(name, text));
  request.device_memory = device.memory;
  // Of use only with tokens to compute on, and only where no other rate was given.
  if (!request.compute) request.compute.emplace();
  if (request.compute->peak_flops == 0) request.compute->peak_flops = device.peak_flops;
  return {};
}

Status apply_memory(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(request.device_memory, parse_bytes(name, text, kAnyBytes));
  return {};
}

Status apply_flops(const std::string& name, const std::string& text, PlanRequest& request) {
  if (!request.compute) request.compute.emplace();
  SHARDLIGHT_TRY(request.compute->peak_flops, parse_number(name, text, 1, 1e21));
  return {};
}

Status apply_efficiency(const std::string& name, const std::string& text, PlanRequest& request) {
  if (!request.compute) request.compute.emplace();
  SHARDLIGHT_TRY(request.compute->efficiency, parse_number(name, text, 1e-6, 1));
  return {};
}

Status apply_interconnect(const std::string& name, const std::string& text, PlanRequest& request) {
  auto preset = plan::interconnect_preset(text);
  if (!preset) return user_error(name, text, preset.error().allowed());
  request.interconnect = *std::move(preset);
  return {};
}

plan::Interconnect& interconnect_of(PlanRequest& request) {
  if (!request.interconnect) request.interconnect.emplace();
  return *request.interconnect;
}

Status apply_bandwidth(const std::string& name, const std::string& text, PlanRequest& request) {
  plan::Interconnect& link = interconnect_of(request);
  SHARDLIGHT_TRY(const std::int64_t rate, parse_bytes_per_second(name, text));
  link.bytes_per_second = static_cast<double>(rate);
  link.name = plan::show_bytes(plan::Share(Bytes(rate))) + "/s";
  return {};
}

Status apply_latency(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(interconnect_of(request).latency, parse_seconds(name, text));
  return {};
}

Status apply_exchange(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::Exchange;
  SHARDLIGHT_TRY(request.exchange,
                 choose(name, text, std::array{Exchange::kOneSided, Exchange::kCollective}));
  return {};
}

Status apply_dynamic(const std::string&, const std::string&, PlanRequest& request) {
  request.dynamic_control_flow = true;
  return {};
}

Status apply_replicas(const std::string&, const std::string&, PlanRequest& request) {
  request.wants_replicas = true;
  return {};
}

constexpr const char* kModel = "Model";
constexpr const char* kRun = "Run";
constexpr const char* kBatch = "Activations and compute";
constexpr const char* kMachine = "Machine";
constexpr const char* kWishes = "For the advice";

// "--device-memory" for the request's field device_memory.
std::string option_of_field(const std::string& field) {
  std::string name = "--" + field;
  for (char& c : name) {
    if (c == '_') c = '-';
  }
  return name;
}

Status check_needs(const Given& given) {
  for (const OptionRow& row : plan_options()) {
    const auto found = given.find(row.name);
    if (found == given.end() || *row.needs == '\0') continue;
    bool met = false;
    for (std::string_view rest = row.needs; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      met = met || given.contains(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!met) {
      std::string wanted = row.needs;
      for (std::size_t at; (at = wanted.find(' ')) != std::string::npos;) {
        wanted.replace(at, 1, "|");
      }
      return user_error(row.name, found->second,
                        "only together with " + wanted + ", without which it would change nothing");
    }
  }
  return {};
}

Result<plan::Model> model_of(const Given& given) {
  const auto params = given.find("--params");
  const auto model = given.find("--model");
  if (params == given.end() && model == given.end()) {
    return user_error("--params or --model", "", "a parameter count, or a model");
  }
  if (params != given.end() && model != given.end()) {
    return user_error("--params", params->second, "only without --model, which has its own count");
  }
  if (model != given.end()) return load_model("--model", model->second);
  SHARDLIGHT_TRY(const std::int64_t count,
                 parse_count("--params", params->second, {1, plan::kMaxParameters}));
  return plan::Model{.name = {}, .parameters = Count(count), .table = {}, .shape = {}};
}

}  // namespace

const std::vector<OptionRow>& plan_options() {
  static const std::vector<OptionRow> kRows = {
      {"--params", "N", kModel, "Number of parameters: 7.5e9, 7.5B, 124439808", "", ignore},
      {"--model", "NAME|FILE", kModel,
       "Built-in name (see: plan models), config.json of Hugging Face or its folder, .safetensors",
       "", ignore},
      {"--unit-bytes", "BYTES", kModel, "Least size of a unit; a block is never split [1MiB]",
       "--model", apply_unit_bytes},
      {"--ranks", "N", kRun, "Data-parallel ranks (required)", "", apply_ranks},
      {"--precision", "P", kRun, "mixed (16 bits and an fp32 master) or fp32 [mixed]", "",
       apply_precision},
      {"--grad-dtype", "D", kRun,
       "Gradients kept and sent in: compute (as parameters), fp32 [compute]", "", apply_gradients},
      {"--optimizer", "O", kRun, "adam (also AdamW), sgd-momentum or sgd [adam]", "",
       apply_optimizer},
      {"--accumulation-steps", "A", kRun, "Micro-steps before an optimizer step [1]", "",
       apply_accumulation},
      {"--reduce", "R", kRun,
       "Gradients of the micro-steps: once, every-micro-step or default (once at stages 0-1)",
       "--accumulation-steps", apply_reduce},
      {"--micro-batch", "B", kBatch, "Sequences a rank and micro-step", "--sequence",
       apply_micro_batch},
      {"--sequence", "S", kBatch, "Tokens of a sequence", "--micro-batch", apply_sequence},
      {"--checkpointing", "C", kBatch, "Activations kept: none, selective or full [none]",
       "--micro-batch", apply_checkpointing},
      {"--activation-rule", "R", kBatch,
       "korthikanti or zero, the paper's rule of thumb [korthikanti]", "--micro-batch", apply_rule},
      {"--peak-flops", "F", kBatch, "Peak of a device, operations a second: 312e12",
       "--micro-batch", apply_flops},
      {"--efficiency", "E", kBatch, "Share of the peak that training reaches [0.4]",
       "--peak-flops --device", apply_efficiency},
      {"--device", "NAME", kMachine, device_help(), "", apply_device},
      {"--device-memory", "BYTES", kMachine, "Memory of a rank's device: 32GB, 80GiB", "",
       apply_memory},
      {"--interconnect", "NAME", kMachine, "nvswitch (300 GB/s) or ib-edr (12.5 GB/s)", "",
       apply_interconnect},
      {"--bandwidth", "RATE", kMachine, "Of a rank's link, one direction: 25GB/s", "",
       apply_bandwidth},
      {"--latency", "TIME", kMachine, "Of a message [5us]", "--interconnect --bandwidth",
       apply_latency},
      {"--exchange", "X", kWishes, "one-sided or collective", "", apply_exchange},
      {"--dynamic-control-flow", "", kWishes, "Ranks may touch parameters in different orders",
       "--exchange", apply_dynamic},
      {"--wants-replicas", "", kWishes, "Replicas are wanted, for recovery or checkpoints", "",
       apply_replicas}};
  return kRows;
}

Result<PlanRequest> plan_request(const Given& given) {
  PlanRequest request;
  SHARDLIGHT_TRY(request.model, model_of(given));
  if (!given.contains("--ranks")) {
    return user_error("--ranks", "", fmt::format("a whole number from 1 to {}", layout::kMaxRanks));
  }
  SHARDLIGHT_TRY_STATUS(check_needs(given));
  for (const OptionRow& row : plan_options()) {
    const auto found = given.find(row.name);
    if (found == given.end()) continue;
    SHARDLIGHT_TRY_STATUS(row.apply(row.name, found->second, request));
  }
  // A device's compute rate is used only with a batch to compute on.
  if (!request.batch) request.compute.reset();
  return request;
}

Error option_error(Error error) {
  if (error.category() != ErrorCategory::kUser || error.field().starts_with("--")) return error;
  return Error::user(option_of_field(error.field()), error.value(), error.allowed());
}

}  // namespace shardlight::cli
