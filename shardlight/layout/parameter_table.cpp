#include "shardlight/layout/parameter_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "shardlight/base/arithmetic.h"

namespace shardlight::layout {
namespace {

// Product of the dimensions, or nothing where it does not fit. A zero dimension makes it zero
// whatever the others are.
std::optional<std::int64_t> product_of(const std::vector<std::int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::optional<std::int64_t> product = 1;
  for (const std::int64_t dimension : shape) {
    product = checked_multiply(*product, dimension);
    if (!product) return std::nullopt;
  }
  return product;
}

}  // namespace

Result<ParameterIndex> ParameterTable::add(std::string name, std::vector<std::int64_t> shape,
                                           ParameterOptions options) {
  const auto refuse_shape = [&](const char* allowed) {
    return user_error(name + ".shape", fmt::format("[{}]", fmt::join(shape, ", ")), allowed);
  };
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return refuse_shape("dimensions of 0 or more");
  }
  const auto elements = product_of(shape);
  const auto bytes =
      elements ? checked_multiply(*elements, bytes_per_element(options.dtype).value()) : elements;
  const auto total = bytes ? checked_add(bytes_.value(), *bytes) : bytes;
  if (!total || *total > kMaxTableBytes)
    return refuse_shape("at most 2^62 bytes in all parameters together");
  const ParameterIndex index = parameters_.size();
  SHARDLIGHT_TRY_STATUS(claim(name, index));
  parameters_.push_back({{std::move(name)}, std::move(shape), Count(*elements), options});
  elements_ += Count(*elements);
  if (options.trainable) trainable_elements_ += Count(*elements);
  bytes_ = Bytes(*total);
  return index;
}

Status ParameterTable::alias(ParameterIndex parameter, std::string name) {
  SHARDLIGHT_TRY_STATUS(claim(name, parameter));
  parameters_[parameter].names.push_back(std::move(name));
  return {};
}

Status ParameterTable::claim(const std::string& name, ParameterIndex parameter) {
  if (name.empty()) return user_error("parameter name", "", "a name that is not empty");
  if (!by_name_.emplace(name, parameter).second) {
    return user_error("parameter name", name, "each name once");
  }
  return {};
}

std::optional<ParameterIndex> ParameterTable::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::string_view block_of(std::string_view parameter_name) {
  std::size_t begin = 0;
  while (begin < parameter_name.size()) {
    const std::size_t end = std::min(parameter_name.find('.', begin), parameter_name.size());
    const std::string_view part = parameter_name.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    // A last component names the parameter itself, as the 3 of a ParameterList's "scales.3".
    if (number && end < parameter_name.size()) return parameter_name.substr(0, end);
    begin = end + 1;
  }
  return {};
}

}  // namespace shardlight::layout
