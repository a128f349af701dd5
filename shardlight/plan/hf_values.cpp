#include "shardlight/plan/hf_values.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "shardlight/base/nearest.h"
#include "shardlight/plan/allowed.h"
#include "shardlight/plan/json_text.h"

namespace shardlight::plan {
namespace {

using nlohmann::json;

// What torch builds parameters in.
constexpr std::array kParameterTypes = {layout::DType::kFloat32, layout::DType::kBFloat16,
                                        layout::DType::kFloat16, layout::DType::kFloat64};

Result<std::int64_t> size_from(const char* key, const json& value, std::int64_t max) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number >= 1 && number <= static_cast<std::uint64_t>(max)) {
      return static_cast<std::int64_t>(number);
    }
  }
  return user_error(key, shown(value), allowed_whole_number(1, max));
}

bool is_decimal(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos &&
         (text.size() == 1 || text.front() != '0');
}

}  // namespace

HfValues::HfValues(json object) : object_(std::make_shared<const json>(std::move(object))) {}

Result<HfValues> HfValues::parse(std::string_view json_text) {
  SHARDLIGHT_TRY(json object, parse_json_object("config", json_text));
  return HfValues(std::move(object));
}

Result<const json*> HfValues::find(Key key) const {
  const auto value_of = [this](const char* name) -> const json* {
    const auto found = object_->find(name);
    return found == object_->end() ? nullptr : &*found;
  };
  const json* first = value_of(key.name);
  if (key.second == nullptr) return first;
  const json* second = value_of(key.second);
  if (first == nullptr) return second;
  if (second == nullptr || *first == *second) return first;
  return user_error(key.second, shown(*second),
                    fmt::format("{}, as {} has, or one of the two keys", shown(*first), key.name));
}

Result<const json*> HfValues::find_present(Key key, const std::string& allowed) const {
  SHARDLIGHT_TRY(const json* value, find(key));
  if (value == nullptr) return user_error(key.name, "", allowed);
  return value;
}

Result<std::int64_t> HfValues::size(Key key, std::int64_t max) const {
  SHARDLIGHT_TRY(const json* value, find_present(key, allowed_whole_number(1, max)));
  return size_from(key.name, *value, max);
}

Result<std::int64_t> HfValues::size_or(Key key, std::int64_t absent,
                                       std::optional<std::int64_t> null) const {
  SHARDLIGHT_TRY(const json* value, find(key));
  if (value == nullptr) return absent;
  if (value->is_null() && null) return *null;
  return size_from(key.name, *value, kLargestSize);
}

Result<bool> HfValues::flag_or(Key key, bool absent) const {
  SHARDLIGHT_TRY(const json* value, find(key));
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return user_error(key.name, shown(*value), allowed_flag());
  return value->get<bool>();
}

Result<std::string> HfValues::text(Key key, const std::string& allowed) const {
  SHARDLIGHT_TRY(const json* value, find_present(key, allowed));
  if (!value->is_string()) return user_error(key.name, shown(*value), allowed);
  return value->get_ref<const std::string&>();
}

bool HfValues::asks_for(const char* key) const {
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null() || *found == false) return false;
  if (found->is_string()) return !found->get_ref<const std::string&>().empty();
  return !found->is_structured() || !found->empty();
}

Failure HfValues::refuse(const char* key, std::string allowed) const {
  const auto found = object_->find(key);
  return user_error(key, found == object_->end() ? "" : shown(*found), std::move(allowed));
}

Result<std::size_t> HfValues::architecture(std::span<const std::string> known,
                                           std::size_t absent) const {
  SHARDLIGHT_TRY(const json* list, find("architectures"));
  if (list == nullptr || list->is_null()) return absent;
  if (!list->is_array()) return user_error("architectures", shown(*list), "a list of strings");
  if (list->empty()) return absent;
  const json& first = list->front();
  if (!first.is_string()) {
    return user_error("architectures[0]", shown(first), one_of(known, {}));
  }
  const std::string& name = first.get_ref<const std::string&>();
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return i;
  }
  return user_error("architectures[0]", shown(first), one_of(known, name));
}

Result<layout::DType> HfValues::dtype() const {
  std::vector<std::string> names;
  for (const layout::DType type : kParameterTypes) names.emplace_back(layout::torch_name(type));
  for (const char* key : {"dtype", "torch_dtype"}) {
    SHARDLIGHT_TRY(const json* value, find(key));
    if (value == nullptr || value->is_null()) continue;
    const std::string name = value->is_string() ? value->get_ref<const std::string&>() : "";
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return kParameterTypes[i];
    }
    return user_error(key, shown(*value), one_of(names, name));
  }
  return layout::DType::kFloat32;
}

Result<std::int64_t> HfValues::labels() const {
  SHARDLIGHT_TRY(const json* number, find("num_labels"));
  SHARDLIGHT_TRY(const json* map, find("id2label"));
  std::optional<std::int64_t> labels;
  if (number != nullptr) {
    SHARDLIGHT_TRY(labels, size_from("num_labels", *number, kLargestSize));
  }
  if (map == nullptr || map->is_null()) return labels.value_or(2);
  const std::string allowed = "an object with one whole number as key for each label";
  if (!map->is_object() || map->empty()) return user_error("id2label", shown(*map), allowed);
  for (const auto& [label, unused] : map->items()) {
    if (!is_decimal(label)) return user_error("id2label", shown(json(label)), allowed);
  }
  const auto entries = static_cast<std::int64_t>(map->size());
  if (labels && *labels != entries) {
    return user_error("num_labels", std::to_string(*labels),
                      fmt::format("{}, the number of entries of id2label", entries));
  }
  return entries;
}

Status check_heads_divide(Key width_key, std::int64_t width, Key heads_key, std::int64_t heads) {
  if (width % heads == 0) return {};
  return user_error(width_key.name, std::to_string(width),
                    fmt::format("a multiple of {} ({})", heads_key.name, heads));
}

}  // namespace shardlight::plan
