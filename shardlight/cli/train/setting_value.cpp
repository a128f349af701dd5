#include "shardlight/cli/train/setting_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shardlight/base/nearest.h"
#include "shardlight/base/parse_quantity.h"
#include "shardlight/cli/arguments.h"
#include "shardlight/plan/json_text.h"

namespace shardlight::cli {
namespace {

using Json = nlohmann::json;

std::string number_text(double number) {
  // Whole ones up to a million as people write them.
  if (number == std::floor(number) && std::abs(number) < 1e7) {
    return fmt::format("{:.0f}", number);
  }
  return fmt::format("{}", number);
}

std::string from_to(SettingRange range) {
  const std::string from = "from " + number_text(range.min);
  return std::isinf(range.max) ? from : from + " to " + number_text(range.max);
}

std::string bytes_text(Bytes bytes) {
  constexpr std::array<std::pair<const char*, std::int64_t>, 3> kUnits = {
      {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}};
  for (const auto& [name, size] : kUnits) {
    if (bytes.value() >= size && bytes.value() % size == 0) {
      return fmt::format("{} {}", bytes.value() / size, name);
    }
  }
  return fmt::format("{} B", bytes.value());
}

// What a kind of field is called, takes from JSON, takes from a flag, and shows. One struct a kind.
struct Kind {
  const Setting& setting;
  std::string name;  // in errors: the path or the flag

  Failure refuse(const std::string& given) const {
    return user_error(
        name, given,
        setting.choices.empty() ? allowed_for(setting) : one_of(setting.choices, given));
  }
  Failure refuse(const Json& given) const {
    return refuse(given.is_string() ? given.get<std::string>() : plan::shown(given));
  }
  bool in_range(double value) const {
    return value >= setting.range.min && value <= setting.range.max;
  }
  IntegerRange whole_range() const {
    const auto bound = [](double value) {
      return value < 9.2e18 ? static_cast<std::int64_t>(value)
                            : std::numeric_limits<std::int64_t>::max();
    };
    return {.min = bound(setting.range.min), .max = bound(setting.range.max)};
  }
};

Status read(const Kind& kind, const Json& json, std::int64_t& value) {
  if (!json.is_number_integer() || !kind.in_range(json.get<double>())) return kind.refuse(json);
  value = json.get<std::int64_t>();
  return {};
}

Status read(const Kind& kind, const Json& json, double& value) {
  if (!json.is_number() || !kind.in_range(json.get<double>())) return kind.refuse(json);
  value = json.get<double>();
  return {};
}

Status read(const Kind& kind, const Json& json, Bytes& value) {
  if (json.is_string()) {
    const auto parsed = parse_bytes(kind.name, json.get<std::string>(), kind.whole_range());
    if (!parsed) return kind.refuse(json);
    value = *parsed;
    return {};
  }
  if (!json.is_number_integer() || !kind.in_range(json.get<double>())) return kind.refuse(json);
  value = Bytes(json.get<std::int64_t>());
  return {};
}

Status read(const Kind& kind, const Json& json, bool& value) {
  if (!json.is_boolean()) return kind.refuse(json);
  value = json.get<bool>();
  return {};
}

Status read(const Kind& kind, const Json& json, std::string& value) {
  const auto& choices = kind.setting.choices;
  if (!json.is_string()) return kind.refuse(json);
  const auto text = json.get<std::string>();
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return kind.refuse(json);
  }
  value = text;
  return {};
}

Status read(const Kind& kind, const Json& json, std::vector<std::string>& value) {
  if (!json.is_array() || json.empty()) return kind.refuse(json);
  value.clear();
  for (const Json& item : json) {
    if (!item.is_string() || item.get<std::string>().empty()) return kind.refuse(item);
    value.push_back(item.get<std::string>());
  }
  return {};
}

Status read(const Kind& kind, const Json& json, std::array<double, 2>& value) {
  if (!json.is_array() || json.size() != 2) return kind.refuse(json);
  SHARDLIGHT_TRY_STATUS(read(kind, json[0], value[0]));
  return read(kind, json[1], value[1]);
}

template <class T>
Status read(const Kind& kind, const Json& json, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
    return {};
  }
  T present{};
  SHARDLIGHT_TRY_STATUS(read(kind, json, present));
  value = present;
  return {};
}

Result<GroupConfig> read_group(const Kind& kind, const Json& json) {
  if (!json.is_object()) return kind.refuse(json);
  GroupConfig group;
  for (const auto& [key, value] : json.items()) {
    Kind part{.setting = kind.setting, .name = kind.name + "." + key};
    if (key == "parameters") {
      SHARDLIGHT_TRY_STATUS(read(part, value, group.parameters));
    } else if (key == "lr") {
      SHARDLIGHT_TRY_STATUS(read(part, value, group.lr));
    } else if (key == "weight_decay") {
      SHARDLIGHT_TRY_STATUS(read(part, value, group.weight_decay));
    } else {
      const std::vector<std::string> keys = {"parameters", "lr", "weight_decay"};
      return user_error(kind.name + "." + key, "unknown key", one_of(keys, key));
    }
  }
  if (group.parameters.empty()) {
    return user_error(kind.name + ".parameters", "", "patterns of the parameters' names");
  }
  return group;
}

Status read(const Kind& kind, const Json& json, std::vector<GroupConfig>& value) {
  if (!json.is_array()) return kind.refuse(json);
  value.clear();
  for (const Json& item : json) {
    const Kind part{.setting = kind.setting,
                    .name = fmt::format("{}[{}]", kind.name, value.size())};
    SHARDLIGHT_TRY(GroupConfig group, read_group(part, item));
    value.push_back(std::move(group));
  }
  return {};
}

// A flag's text as the JSON that would say the same.
Result<Json> json_of(const Kind& kind, const std::string& text, const SettingField& field) {
  if (std::holds_alternative<std::int64_t*>(field)) {
    SHARDLIGHT_TRY(const auto number, parse_count(kind.name, text, kind.whole_range()));
    return Json(number);
  }
  if (std::holds_alternative<bool*>(field)) return Json(true);
  if (std::holds_alternative<std::vector<std::string>*>(field)) {
    Json list = Json::array();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      list.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return list;
  }
  return Json(text);
}

std::string shown(std::int64_t value) { return fmt::to_string(value); }
std::string shown(double value) { return number_text(value); }
std::string shown(Bytes value) { return bytes_text(value); }
std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(const std::string& value) { return value.empty() ? "none" : value; }
std::string shown(const std::vector<std::string>& value) {
  return fmt::format("{}", fmt::join(value, ", "));
}
std::string shown(const std::array<double, 2>& value) {
  return fmt::format("{}, {}", value[0], value[1]);
}
template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? shown(*value) : "none";
}
std::string shown(const std::vector<GroupConfig>& groups) {
  std::string text;
  for (const GroupConfig& group : groups) {
    text += fmt::format("{}{}:", text.empty() ? "" : "; ", fmt::join(group.parameters, ", "));
    if (group.lr) text += fmt::format(" lr {}", *group.lr);
    if (group.weight_decay) text += fmt::format(" weight_decay {}", *group.weight_decay);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string allowed_for(const Setting& setting) {
  TrainConfig config;
  const SettingField field = setting.field(config);
  if (!setting.choices.empty()) {
    return fmt::format("one of: {}", fmt::join(setting.choices, ", "));
  }
  const std::string range = from_to(setting.range);
  if (std::holds_alternative<std::int64_t*>(field)) return "a whole number " + range;
  if (std::holds_alternative<double*>(field)) return "a number " + range;
  if (std::holds_alternative<std::optional<double>*>(field)) return "null or a number " + range;
  if (std::holds_alternative<bool*>(field)) return "true or false";
  if (std::holds_alternative<std::string*>(field)) return "a text";
  if (std::holds_alternative<std::vector<std::string>*>(field)) return "a list of file names";
  if (std::holds_alternative<std::array<double, 2>*>(field)) {
    return "a list of two numbers " + range;
  }
  if (std::holds_alternative<std::vector<GroupConfig>*>(field)) {
    return R"(a list as in [{"parameters": ["*.bias"], "weight_decay": 0}], numbers )" + range;
  }
  const bool optional = std::holds_alternative<std::optional<Bytes>*>(field);
  return std::string(optional ? "null or " : "") + "bytes as in 4194304 or \"4 MiB\", " + range;
}

Status set_from_json(const Setting& setting, const Json& value, TrainConfig& config) {
  const Kind kind{.setting = setting, .name = setting.path};
  return std::visit([&](auto* field) { return read(kind, value, *field); }, setting.field(config));
}

Status set_from_flag(const Setting& setting, const std::string& text, TrainConfig& config) {
  const Kind kind{.setting = setting, .name = setting.flag};
  const SettingField at = setting.field(config);
  SHARDLIGHT_TRY(const Json value, json_of(kind, text, at));
  return std::visit([&](auto* field) { return read(kind, value, *field); }, at);
}

bool means_something(const Setting& setting, const TrainConfig& config) {
  if (setting.needs.path.empty()) return true;
  const auto& wanted = setting.needs.values;
  const std::string value = shown_value(*find_setting(setting.needs.path), config);
  return std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

std::string shown_value(const Setting& setting, const TrainConfig& config) {
  TrainConfig copy = config;
  return std::visit([](const auto* field) { return shown(*field); }, setting.field(copy));
}

Value exact_value(const Setting& setting, const TrainConfig& config) {
  TrainConfig copy = config;
  const SettingField field = setting.field(copy);
  if (const auto* whole = std::get_if<std::int64_t*>(&field)) return **whole;
  if (const auto* number = std::get_if<double*>(&field)) return **number;
  if (const auto* bytes = std::get_if<Bytes*>(&field)) return (*bytes)->value();
  if (const auto* flag = std::get_if<bool*>(&field)) return **flag;
  if (const auto* number = std::get_if<std::optional<double>*>(&field)) {
    return **number ? Value(***number) : Value();
  }
  if (const auto* bytes = std::get_if<std::optional<Bytes>*>(&field)) {
    return **bytes ? Value((**bytes)->value()) : Value();
  }
  return shown_value(setting, copy);
}

}  // namespace shardlight::cli
