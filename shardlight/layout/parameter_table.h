// The parameters of a model, in registration order: what every layout, plan and checkpoint starts
// from. A row is a unique storage; tied weights are one row with several names.
//
// A value: build it once with add() and alias(), then share it read-only between threads.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"
#include "shardlight/layout/dtype.h"

namespace shardlight::layout {

using ParameterIndex = std::size_t;

struct ParameterOptions {
  DType dtype = DType::kFloat32;
  int optimizer_group = 0;  // optimizer group: learning rate, weight decay, …
  bool trainable = true;
};

struct Parameter {
  std::vector<std::string> names;  // the first is the canonical one; never empty
  std::vector<std::int64_t> shape;
  Count elements;  // product of the shape; 1 for a scalar, may be 0
  ParameterOptions options;

  const std::string& name() const { return names.front(); }
  Bytes bytes() const { return bytes_per_element(options.dtype) * elements.value(); }
};

// Room above it lets every sum of padded sizes stay within 64 bits.
inline constexpr std::int64_t kMaxTableBytes = std::int64_t{1} << 62;

class ParameterTable {
 public:
  // Errors (user, field `name`): a name that is empty or taken, a negative dimension, a number of
  // bytes above 2^62 in this parameter or in all together.
  Result<ParameterIndex> add(std::string name, std::vector<std::int64_t> shape,
                             ParameterOptions options = {});
  // Another name for an existing parameter: a tied weight.
  Status alias(ParameterIndex parameter, std::string name);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& operator[](ParameterIndex index) const { return parameters_[index]; }
  std::size_t size() const { return parameters_.size(); }
  // By any of its names; nothing if there is no such parameter.
  std::optional<ParameterIndex> find(std::string_view name) const;

  Count elements() const { return elements_; }
  Count trainable_elements() const { return trainable_elements_; }

 private:
  Status claim(const std::string& name, ParameterIndex parameter);

  std::vector<Parameter> parameters_;
  std::map<std::string, ParameterIndex, std::less<>> by_name_;
  Count elements_, trainable_elements_;
  Bytes bytes_;
};

// The repeated part of the model that a parameter belongs to: its name up to and including the
// first component that is a number ("transformer.h.0" of "transformer.h.0.mlp.c_fc.weight"). Empty
// if there is none.
std::string_view block_of(std::string_view parameter_name);

}  // namespace shardlight::layout
