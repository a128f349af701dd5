// Prints a model as the Python tests compare it: a line of JSON for the model, then one for each
// parameter. `dump_model config PATH`, `dump_model safetensors PATH`, `dump_model builtin NAME`,
// `dump_model builtins` (the names). Exit code 2 and the message on stderr where there is an error.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "shardlight/layout/dtype.h"
#include "shardlight/plan/builtin_models.h"
#include "shardlight/plan/hf_config.h"
#include "shardlight/plan/safetensors_header.h"

namespace {

using nlohmann::json;
using namespace shardlight;

Result<plan::Model> read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return plan::model_from_hf_config(text, path);
}

Result<plan::Model> read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const Bytes file_size(static_cast<std::int64_t>(file.tellg()));
  file.seekg(0);
  std::string prefix(8, '\0');
  file.read(prefix.data(), 8);
  prefix.resize(static_cast<std::size_t>(file.gcount()));
  SHARDLIGHT_TRY(const Bytes header_size, plan::safetensors_header_size(prefix, file_size));
  std::string header(static_cast<std::size_t>(header_size.value()), '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  const Bytes data_size = file_size - plan::kSafetensorsPrefix - header_size;
  return plan::model_from_safetensors_header(header, data_size, path);
}

void print(const plan::Model& model) {
  json line = {{"name", model.name}, {"parameters", model.parameters.value()}};
  if (model.shape) {
    line["shape"] = {{"hidden", model.shape->hidden},
                     {"layers", model.shape->layers},
                     {"heads", model.shape->heads},
                     {"vocabulary", model.shape->vocabulary},
                     {"positions", model.shape->positions}};
  }
  std::cout << line << '\n';
  if (!model.table) return;
  for (const layout::Parameter& parameter : model.table->parameters()) {
    const auto aliases = std::vector(parameter.names.begin() + 1, parameter.names.end());
    std::cout << json{{"name", parameter.name()},
                      {"shape", parameter.shape},
                      {"dtype", layout::torch_name(parameter.options.dtype)},
                      {"aliases", aliases}}
              << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "builtins" && argc == 2) {
    for (const auto& builtin : plan::builtin_models()) {
      std::cout << json{{"name", builtin.name}, {"config", builtin.hf_config}} << '\n';
    }
    return 0;
  }
  if (argc != 3 || (kind != "config" && kind != "safetensors" && kind != "builtin")) {
    std::cerr << "usage: dump_model config PATH | safetensors PATH | builtin NAME | builtins\n";
    return 2;
  }
  const auto model = kind == "config"        ? read_config(argv[2])
                     : kind == "safetensors" ? read_safetensors(argv[2])
                                             : plan::builtin_model(argv[2]);
  if (!model) {
    std::cerr << model.error().message() << '\n';
    return 2;
  }
  print(*model);
  return 0;
}
