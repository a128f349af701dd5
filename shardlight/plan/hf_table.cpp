#include "shardlight/plan/hf_table.h"

#include <utility>

namespace shardlight::plan {

void TableBuilder::parameter(std::string name, std::vector<std::int64_t> shape) {
  if (!status_) return;
  auto added = table_.add(std::move(name), std::move(shape), options_);
  if (!added) status_ = failure_of(std::move(added));
}

void TableBuilder::tied(const std::string& existing, std::string name) {
  if (!status_) return;
  const auto index = table_.find(existing);
  if (index) {
    status_ = table_.alias(*index, std::move(name));
  } else {
    status_ = Failure(Error::bug("no parameter " + existing + " to tie " + name + " to"));
  }
}

void TableBuilder::linear(const std::string& module, std::int64_t inputs, std::int64_t outputs,
                          bool bias) {
  parameter(module + ".weight", {outputs, inputs});
  if (bias) parameter(module + ".bias", {outputs});
}

void TableBuilder::conv1d(const std::string& module, std::int64_t inputs, std::int64_t outputs) {
  parameter(module + ".weight", {inputs, outputs});
  parameter(module + ".bias", {outputs});
}

void TableBuilder::embedding(const std::string& module, std::int64_t entries, std::int64_t width) {
  parameter(module + ".weight", {entries, width});
}

void TableBuilder::layer_norm(const std::string& module, std::int64_t width) {
  parameter(module + ".weight", {width});
  parameter(module + ".bias", {width});
}

void TableBuilder::rms_norm(const std::string& module, std::int64_t width) {
  parameter(module + ".weight", {width});
}

Result<Model> TableBuilder::finish(std::string model_name, TransformerShape shape) && {
  if (!status_) return failure_of(std::move(status_));
  Model model;
  model.name = std::move(model_name);
  model.parameters = table_.elements();
  model.table = std::move(table_);
  model.shape = shape;
  return model;
}

}  // namespace shardlight::plan
