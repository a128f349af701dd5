#include "shardlight/cli/plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "shardlight/base/nearest.h"
#include "shardlight/base/parse_quantity.h"
#include "shardlight/cli/model_source.h"
#include "shardlight/plan/device_presets.h"
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

Status apply_grad_dtype(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::GradientDtype;
  SHARDLIGHT_TRY(request.grad_dtype,
                 choose(name, text, std::array{GradientDtype::kCompute, GradientDtype::kFp32}));
  return {};
}

Status apply_optimizer(const std::string& name, const std::string& text, PlanRequest& request) {
  using plan::Optimizer;
  if (text == "adamw") return apply_optimizer(name, "adam", request);  // it keeps the same states
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

plan::Compute& compute_of(PlanRequest& request) {
  if (!request.compute) request.compute.emplace();
  return *request.compute;
}

Status apply_device(const std::string& name, const std::string& text, PlanRequest& request) {
  auto device = plan::device_preset(text);
  if (!device) return user_error(name, text, device.error().allowed());
  request.device_memory = device->memory;
  compute_of(request).peak_flops = device->peak_flops(request.precision);
  return {};
}

Status apply_memory(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(request.device_memory, parse_bytes(name, text, kAnyBytes));
  return {};
}

Status apply_flops(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(const std::int64_t rate, parse_count(name, text, {1, kMaxInteger}));
  compute_of(request).peak_flops = static_cast<double>(rate);
  return {};
}

Status apply_efficiency(const std::string& name, const std::string& text, PlanRequest& request) {
  SHARDLIGHT_TRY(compute_of(request).efficiency, parse_number(name, text, 1e-6, 1));
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

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Status check_company(const OptionRow& row, const std::string& text, const Given& given) {
  for (const std::string& alternatives : split(row.needs, ',')) {
    const std::vector<std::string> names = split(alternatives, ' ');
    const auto is_given = [&](const std::string& name) { return given.contains(name); };
    if (std::any_of(names.begin(), names.end(), is_given)) continue;
    return user_error(row.name, text,
                      fmt::format("only together with {}, without which it would change nothing",
                                  fmt::join(names, " or ")));
  }
  if (*row.excludes != '\0' && given.contains(row.excludes)) {
    return user_error(row.name, text, fmt::format("only without {}", row.excludes));
  }
  return {};
}

Result<plan::Model> model_of(const Given& given) {
  const auto params = given.find("--params");
  const auto model = given.find("--model");
  if (params == given.end() && model == given.end()) {
    return user_error("--params or --model", "", "a parameter count, or a model");
  }
  if (model != given.end()) return load_model("--model", model->second);
  SHARDLIGHT_TRY(const std::int64_t count,
                 parse_count("--params", params->second, {1, plan::kMaxParameters}));
  return plan::Model{.name = {}, .parameters = Count(count), .table = {}, .shape = {}};
}

std::string device_help() {
  std::vector<std::string> names;
  for (const plan::DevicePreset& preset : plan::device_presets()) names.push_back(preset.name);
  return fmt::format("Memory and peak of {}", fmt::join(names, ", "));
}

}  // namespace

const std::vector<OptionRow>& plan_options() {
  static const std::string kDeviceHelp = device_help();
  static const std::vector<OptionRow> kRows = {
      {"--params", "N", kModel, "Number of parameters: 7.5e9, 7.5B, 124439808", "", "--model",
       ignore},
      {"--model", "NAME|FILE", kModel,
       "Built-in name (plan models), config.json or its folder, .safetensors", "", "--params",
       ignore},
      {"--unit-bytes", "BYTES", kModel, "Least size of a unit; a block is never split [1MiB]",
       "--model", "", apply_unit_bytes},
      {"--ranks", "N", kRun, "Data-parallel ranks (required)", "", "", apply_ranks},
      {"--precision", "P", kRun, "mixed (16 bits and an fp32 master) or fp32 [mixed]", "", "",
       apply_precision},
      {"--grad-dtype", "D", kRun, "Of gradients kept and sent: compute or fp32 [compute]", "", "",
       apply_grad_dtype},
      {"--optimizer", "O", kRun, "adam or adamw, sgd-momentum or sgd [adam]", "", "",
       apply_optimizer},
      {"--accumulation-steps", "A", kRun, "Micro-steps before an optimizer step [1]", "", "",
       apply_accumulation},
      {"--reduce", "R", kRun, "once, every-micro-step or default (once at stages 0-1)",
       "--accumulation-steps", "", apply_reduce},
      {"--micro-batch", "B", kBatch, "Sequences a rank and micro-step", "--sequence", "",
       apply_micro_batch},
      {"--sequence", "S", kBatch, "Tokens of a sequence", "--micro-batch", "", apply_sequence},
      {"--checkpointing", "C", kBatch, "Activations: none, selective or full [none]",
       "--micro-batch", "", apply_checkpointing},
      {"--activation-rule", "R", kBatch, "korthikanti, or zero: the paper's rule [korthikanti]",
       "--micro-batch", "", apply_rule},
      {"--peak-flops", "F", kBatch, "Peak of a device, operations a second: 312e12, 312T",
       "--micro-batch", "--device", apply_flops},
      {"--efficiency", "E", kBatch, "Share of the peak that training reaches [0.4]",
       "--micro-batch,--peak-flops --device", "", apply_efficiency},
      {"--device", "NAME", kMachine, kDeviceHelp.c_str(), "", "--device-memory", apply_device},
      {"--device-memory", "BYTES", kMachine, "Memory of a rank's device: 32GB, 80GiB", "",
       "--device", apply_memory},
      {"--interconnect", "NAME", kMachine, "nvswitch (300 GB/s) or ib-edr (12.5 GB/s)", "",
       "--bandwidth", apply_interconnect},
      {"--bandwidth", "RATE", kMachine, "Of a rank's link, one direction: 25GB/s", "",
       "--interconnect", apply_bandwidth},
      {"--latency", "TIME", kMachine, "Of a message [5us]", "--interconnect --bandwidth", "",
       apply_latency},
      {"--exchange", "X", kWishes, "one-sided or collective", "--dynamic-control-flow", "",
       apply_exchange},
      {"--dynamic-control-flow", "", kWishes, "Ranks may touch parameters in different orders",
       "--exchange", "", apply_dynamic},
      {"--wants-replicas", "", kWishes, "Replicas are wanted, for recovery or checkpoints", "", "",
       apply_replicas}};
  return kRows;
}

Result<PlanRequest> plan_request(const Given& given) {
  for (const OptionRow& row : plan_options()) {
    const auto found = given.find(row.name);
    if (found == given.end()) continue;
    SHARDLIGHT_TRY_STATUS(check_company(row, found->second, given));
  }
  PlanRequest request;
  SHARDLIGHT_TRY(request.model, model_of(given));
  if (!given.contains("--ranks")) {
    return user_error("--ranks", "", fmt::format("a whole number from 1 to {}", layout::kMaxRanks));
  }
  for (const OptionRow& row : plan_options()) {
    const auto found = given.find(row.name);
    if (found == given.end()) continue;
    SHARDLIGHT_TRY_STATUS(row.apply(row.name, found->second, request));
  }
  // A device's compute rate is used only with a batch to compute on.
  if (!request.batch) request.compute.reset();
  return request;
}

Error option_error(Error error, const Given& given) {
  if (error.category() != ErrorCategory::kUser) return error;
  std::string name = "--" + error.field();
  std::replace(name.begin(), name.end(), '_', '-');
  if (error.field() == "parameters") name = given.contains("--model") ? "--model" : "--params";
  const auto found = given.find(name);
  if (found == given.end()) return error;
  return Error::user(name, found->second, error.allowed());
}

}  // namespace shardlight::cli
