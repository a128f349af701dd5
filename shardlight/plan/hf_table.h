// Building the parameter table of a torch module tree by its modules: linear, norm, embedding, as
// torch and transformers name and shape their parameters. Internal to plan; one thread.
//
// The first error is kept, what follows it does nothing, and finish() returns it: a family's code
// reads as the list of its parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/parameter_table.h"
#include "shardlight/plan/model.h"

namespace shardlight::plan {

class TableBuilder {
 public:
  explicit TableBuilder(layout::DType dtype) { options_.dtype = dtype; }

  void parameter(std::string name, std::vector<std::int64_t> shape);
  // Another name of a parameter that is there.
  void tied(const std::string& existing, std::string name);

  // torch.nn.Linear: weight [outputs, inputs], bias [outputs].
  void linear(const std::string& module, std::int64_t inputs, std::int64_t outputs, bool bias);
  // transformers' Conv1D, GPT-2's linear: weight [inputs, outputs], bias [outputs].
  void conv1d(const std::string& module, std::int64_t inputs, std::int64_t outputs);
  // torch.nn.Embedding: weight [entries, width].
  void embedding(const std::string& module, std::int64_t entries, std::int64_t width);
  // torch.nn.LayerNorm: weight and bias [width].
  void layer_norm(const std::string& module, std::int64_t width);
  // RMSNorm: weight [width].
  void rms_norm(const std::string& module, std::int64_t width);

  Result<Model> finish(std::string model_name, TransformerShape shape) &&;

 private:
  layout::ParameterOptions options_;
  layout::ParameterTable table_;
  Status status_;
};

}  // namespace shardlight::plan
