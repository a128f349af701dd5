#include "shardlight/plan/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "shardlight/base/nearest.h"
#include "shardlight/plan/allowed.h"
#include "shardlight/plan/json_text.h"

namespace shardlight::plan {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

struct Tensor {
  std::string name;
  layout::DType dtype = layout::DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // bytes from the start of the data
  std::int64_t end = 0;
};

std::vector<std::string> known_dtypes() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(layout::DType::kBool); ++i) {
    names.emplace_back(layout::safetensors_name(static_cast<layout::DType>(i)));
  }
  return names;
}

// The value of `key` in a tensor's entry, or the error that it is missing.
Result<const json*> part_of(const std::string& tensor, const json& entry, const char* key,
                            const std::string& allowed) {
  const auto found = entry.find(key);
  if (found == entry.end()) return user_error(tensor + "." + key, "", allowed);
  return &*found;
}

// A list of whole numbers from 0 on.
Result<std::vector<std::int64_t>> numbers_of(const std::string& tensor, const json& entry,
                                             const char* key) {
  const std::string allowed = "a list of whole numbers of 0 or more";
  SHARDLIGHT_TRY(const json* list, part_of(tensor, entry, key, allowed));
  const std::string field = tensor + "." + key;
  if (!list->is_array()) return user_error(field, shown(*list), allowed);
  std::vector<std::int64_t> numbers;
  for (const json& number : *list) {
    const bool whole = number.is_number_unsigned() &&
                       number.get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest);
    if (!whole) {
      return user_error(fmt::format("{}[{}]", field, numbers.size()), shown(number),
                        allowed_whole_number(0, kLargest));
    }
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

Result<layout::DType> dtype_of(const std::string& tensor, const json& entry) {
  const auto known = known_dtypes();
  SHARDLIGHT_TRY(const json* value, part_of(tensor, entry, "dtype", one_of(known, {})));
  const std::string name = value->is_string() ? value->get_ref<const std::string&>() : "";
  const auto dtype = layout::dtype_from_safetensors(name);
  if (!dtype) return user_error(tensor + ".dtype", shown(*value), one_of(known, name));
  return *dtype;
}

Result<Tensor> tensor_from(const std::string& name, const json& entry) {
  if (!entry.is_object()) {
    return user_error(name, shown(entry), "an object with dtype, shape and data_offsets");
  }
  Tensor tensor;
  tensor.name = name;
  SHARDLIGHT_TRY(tensor.dtype, dtype_of(name, entry));
  SHARDLIGHT_TRY(tensor.shape, numbers_of(name, entry, "shape"));
  SHARDLIGHT_TRY(const auto offsets, numbers_of(name, entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return user_error(name + ".data_offsets",
                      offsets.size() == 2 ? fmt::format("[{}, {}]", offsets[0], offsets[1])
                                          : fmt::format("{} numbers", offsets.size()),
                      "two numbers, the first not above the second");
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return tensor;
}

Status check_metadata(const json& metadata) {
  const std::string allowed = "an object of strings";
  if (!metadata.is_object()) return user_error(kMetadata, shown(metadata), allowed);
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) {
      return user_error(fmt::format("{}.{}", kMetadata, key), shown(value), "a string");
    }
  }
  return {};
}

// Adds the tensor, whose data must begin where that of the one before ended; to `parameters` too if
// it can be one.
Status add(layout::ParameterTable& all, layout::ParameterTable& parameters, const Tensor& tensor,
           std::int64_t expected_begin) {
  const std::string field = tensor.name + ".data_offsets";
  const std::string offsets = fmt::format("[{}, {}]", tensor.begin, tensor.end);
  if (tensor.begin != expected_begin) {
    return user_error(
        field, offsets,
        fmt::format("offsets from {} on, where the data before it ends", expected_begin));
  }
  const layout::ParameterOptions options{.dtype = tensor.dtype};
  SHARDLIGHT_TRY(const auto index, all.add(tensor.name, tensor.shape, options));
  const std::int64_t bytes = all[index].bytes().value();
  if (tensor.end - tensor.begin != bytes) {
    return user_error(field, offsets,
                      fmt::format("offsets {} bytes apart, as its shape and dtype have it", bytes));
  }
  if (!layout::is_floating(tensor.dtype)) return {};
  SHARDLIGHT_TRY(const auto added, parameters.add(tensor.name, tensor.shape, options));
  static_cast<void>(added);
  return {};
}

}  // namespace

Result<Bytes> safetensors_header_size(std::string_view first_8_bytes, Bytes file_size) {
  const char* const field = "header length";
  const auto prefix = static_cast<std::size_t>(kSafetensorsPrefix.value());
  if (first_8_bytes.size() < prefix || file_size < kSafetensorsPrefix) {
    return user_error(field, fmt::format("{} bytes", first_8_bytes.size()),
                      "8 bytes at the start of the file");
  }
  std::uint64_t length = 0;
  for (std::size_t i = prefix; i-- > 0;) {
    length = length << 8U | static_cast<unsigned char>(first_8_bytes[i]);
  }
  const Bytes largest = std::min(kLargestSafetensorsHeader, file_size - kSafetensorsPrefix);
  if (length > static_cast<std::uint64_t>(largest.value())) {
    return user_error(field, std::to_string(length),
                      fmt::format("at most {} bytes ({})", largest.value(),
                                  largest < kLargestSafetensorsHeader ? "the rest of the file"
                                                                      : "the limit of the format"));
  }
  return Bytes(static_cast<std::int64_t>(length));
}

Result<Model> model_from_safetensors_header(std::string_view header_json, Bytes data_size,
                                            std::string name) {
  if (!header_json.starts_with('{')) {
    const std::string first(header_json.substr(0, 1));
    return user_error("header", first.empty() ? "" : shown(json(first)),
                      "a JSON object that begins with '{'");
  }
  SHARDLIGHT_TRY(const json header, parse_json_object("header", header_json));
  std::vector<Tensor> tensors;
  for (const auto& [key, entry] : header.items()) {
    if (key == kMetadata) {
      SHARDLIGHT_TRY_STATUS(check_metadata(entry));
      continue;
    }
    SHARDLIGHT_TRY(Tensor tensor, tensor_from(key, entry));
    tensors.push_back(std::move(tensor));
  }
  std::ranges::sort(tensors, {}, [](const Tensor& tensor) {
    return std::tie(tensor.begin, tensor.end, tensor.name);
  });
  layout::ParameterTable all, parameters;
  std::int64_t end = 0;
  for (const Tensor& tensor : tensors) {
    SHARDLIGHT_TRY_STATUS(add(all, parameters, tensor, end));
    end = tensor.end;
  }
  if (end != data_size.value()) {
    return user_error("data", fmt::format("{} bytes", data_size.value()),
                      fmt::format("the {} bytes that the header describes", end));
  }
  Model model;
  model.name = std::move(name);
  model.parameters = parameters.elements();
  model.table = std::move(parameters);
  return model;
}

}  // namespace shardlight::plan
