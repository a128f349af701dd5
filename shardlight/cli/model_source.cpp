#include "shardlight/cli/model_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "shardlight/base/nearest.h"
#include "shardlight/io/file.h"
#include "shardlight/plan/builtin_models.h"
#include "shardlight/plan/hf_config.h"
#include "shardlight/plan/safetensors_header.h"

namespace shardlight::cli {
namespace {

constexpr Bytes kLargestConfig{std::int64_t{16} << 20};

// The path of the file in front of what is wrong in it: "tiny/config.json: n_embd".
template <class T>
Result<T> located(Result<T> result, const std::string& path) {
  if (result || result.error().category() != ErrorCategory::kUser) return result;
  return Failure(std::move(result).error().within(path, ": "));
}

Result<plan::Model> from_safetensors(const std::string& path, const std::string& name) {
  SHARDLIGHT_TRY(const io::File file, io::File::open(path));
  const Bytes prefix_size = std::min(file.size(), plan::kSafetensorsPrefix);
  SHARDLIGHT_TRY(const std::string prefix, file.read(Bytes(0), prefix_size));
  SHARDLIGHT_TRY(const Bytes header_size,
                 located(plan::safetensors_header_size(prefix, file.size()), path));
  SHARDLIGHT_TRY(const std::string header, file.read(plan::kSafetensorsPrefix, header_size));
  const Bytes data = file.size() - plan::kSafetensorsPrefix - header_size;
  return located(plan::model_from_safetensors_header(header, data, name), path);
}

Result<plan::Model> from_config(const std::string& path, const std::string& name) {
  SHARDLIGHT_TRY(const std::string text, io::read_file(path, kLargestConfig));
  return located(plan::model_from_hf_config(text, name), path);
}

Result<plan::Model> unknown(const std::string& field, const std::string& source) {
  std::vector<std::string> names;
  for (const plan::BuiltinModel& model : plan::builtin_models()) names.emplace_back(model.name);
  const auto nearest = nearest_name(source, names);
  return user_error(field, source,
                    (nearest ? "did you mean " + *nearest + "? " : "") +
                        "a built-in name (shardlight plan models lists them), a Hugging Face "
                        "config.json or the folder that holds one, or a .safetensors file");
}

}  // namespace

Result<plan::Model> load_model(const std::string& field, const std::string& source) {
  for (const plan::BuiltinModel& model : plan::builtin_models()) {
    if (model.name == source) return plan::builtin_model(source);
  }
  std::error_code ignored;  // a path that cannot be looked at is reported when it is opened
  const std::filesystem::path path(source);
  const bool folder = std::filesystem::is_directory(path, ignored);
  if (!folder && !std::filesystem::exists(path, ignored)) return unknown(field, source);
  if (path.extension() == ".safetensors") return from_safetensors(source, source);
  if (!folder) return from_config(source, source);
  const std::filesystem::path config = path / "config.json";
  if (!std::filesystem::exists(config, ignored)) {
    return user_error(field, source, "a folder only with a config.json in it");
  }
  return from_config(config.string(), source);
}

}  // namespace shardlight::cli
