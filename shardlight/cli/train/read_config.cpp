#include "shardlight/cli/train/read_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "shardlight/base/nearest.h"
#include "shardlight/cli/train/setting_value.h"
#include "shardlight/io/file.h"
#include "shardlight/plan/json_text.h"

namespace shardlight::cli {
namespace {

using Json = nlohmann::json;

constexpr Bytes kLargestConfig{std::int64_t{1} << 20};

// The keys that may stand in the section `prefix` ("" or "model.").
std::vector<std::string> keys_of(const std::string& prefix) {
  std::vector<std::string> keys;
  for (const Setting& row : train_settings()) {
    if (!row.path.starts_with(prefix)) continue;
    const std::string rest = row.path.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (keys.empty() || keys.back() != key) keys.push_back(key);
  }
  return keys;
}

Status read_section(const std::string& prefix, const Json& section, TrainRequest& request) {
  const std::vector<std::string> keys = keys_of(prefix);
  for (const auto& [key, value] : section.items()) {
    const std::string path = prefix + key;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return user_error(path, "unknown key", one_of(keys, key));
    }
    if (const Setting* setting = find_setting(path)) {
      SHARDLIGHT_TRY_STATUS(set_from_json(*setting, value, request.config));
      request.origins[path] = SettingOrigin::kConfig;
    } else if (value.is_object()) {
      SHARDLIGHT_TRY_STATUS(read_section(path + ".", value, request));
    } else {
      return user_error(path, plan::shown(value), "an object with keys");
    }
  }
  return {};
}

Status read_flags(const Given& flags, TrainRequest& request) {
  for (const Setting& setting : train_settings()) {
    const auto given = setting.flag.empty() ? flags.end() : flags.find(setting.flag);
    if (given == flags.end()) continue;
    SHARDLIGHT_TRY_STATUS(set_from_flag(setting, given->second, request.config));
    request.origins[setting.path] = SettingOrigin::kFlag;
  }
  // A stage on the command line is meant, whatever placements the config has.
  if (request.origin("zero.stage") == SettingOrigin::kFlag) {
    request.config.zero.placements = {};
    std::erase_if(request.origins,
                  [](const auto& item) { return item.first.starts_with("zero.placements."); });
  }
  // So is this one: it brings its own order of addition, and reduces once a step.
  if (request.origin("zero.reproducible") == SettingOrigin::kFlag) {
    request.config.zero.order = ZeroConfig().order;
    request.config.zero.reduce = "once";
    request.origins.erase("zero.order");
    request.origins.erase("zero.group");
    request.origins["zero.reduce"] = SettingOrigin::kFlag;
  }
  return {};
}

// What was given although another setting makes it mean nothing.
Status check_needs(const TrainRequest& request) {
  for (const Setting& setting : train_settings()) {
    const SettingNeeds& needs = setting.needs;
    if (!request.origins.contains(setting.path)) continue;
    if (means_something(setting, request.config)) continue;
    return user_error(setting.path, shown_value(setting, request.config),
                      fmt::format("it only where {} is {}, and it is {}", needs.path,
                                  fmt::join(needs.values, " or "),
                                  shown_value(*find_setting(needs.path), request.config)));
  }
  return {};
}

Status check_together(const TrainConfig& config) {
  const auto accumulation = static_cast<std::uint64_t>(config.batch.accumulation);
  const ModelConfig& model = config.model;
  if (model.hidden % model.heads != 0) {
    return user_error("model.hidden", fmt::to_string(model.hidden),
                      fmt::format("a multiple of model.heads, {}", model.heads));
  }
  if (model.positions != 0 && model.positions < config.batch.sequence) {
    return user_error("model.positions", fmt::to_string(model.positions),
                      fmt::format("0, or batch.sequence, {}, and more", config.batch.sequence));
  }
  if (config.zero.reproducible && config.zero.reduce == "every-micro-step" &&
      config.batch.accumulation > 1) {
    return user_error("zero.reduce", config.zero.reduce, "once where zero.reproducible is true");
  }
  if (config.zero.reproducible && !std::has_single_bit(accumulation)) {
    return user_error("batch.accumulation", fmt::to_string(config.batch.accumulation),
                      "a power of two where zero.reproducible is true");
  }
  if (config.ranks * config.batch.accumulation > std::int64_t{1} << 27U) {
    return user_error("batch.accumulation", fmt::to_string(config.batch.accumulation),
                      "fewer: at most 2^27 micro-batches a step over all ranks");
  }
  return {};
}

}  // namespace

SettingOrigin TrainRequest::origin(const std::string& path) const {
  const auto found = origins.find(path);
  return found == origins.end() ? SettingOrigin::kDefault : found->second;
}

Result<TrainRequest> read_train_request(const std::string& name, const std::string& text,
                                        const Given& flags) {
  TrainRequest request;
  const auto in_file = [&](Status status) -> Status {
    if (status || name.empty()) return status;
    return Failure(std::move(status).error().within(name, ": "));
  };
  auto json = plan::parse_json_object("", text);
  if (!json) return Failure(std::move(json).error().within(name, ": "));
  SHARDLIGHT_TRY_STATUS(in_file(read_section("", *json, request)));
  SHARDLIGHT_TRY_STATUS(read_flags(flags, request));
  SHARDLIGHT_TRY_STATUS(in_file(check_needs(request)));
  SHARDLIGHT_TRY_STATUS(in_file(check_together(request.config)));
  return request;
}

Result<TrainRequest> load_train_request(const std::string& path, const Given& flags) {
  if (path.empty()) return read_train_request("", "{}", flags);
  if (io::path_kind(path) == io::PathKind::kMissing) {
    return user_error("config", path, "a file that is there, as in examples/gpt.json");
  }
  SHARDLIGHT_TRY(const std::string text, io::read_file(path, kLargestConfig));
  return read_train_request(path, text, flags);
}

}  // namespace shardlight::cli
