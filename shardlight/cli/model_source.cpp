#include "shardlight/cli/model_source.h"

#include <algorithm>
#include <utility>

#include "shardlight/base/nearest.h"
#include "shardlight/io/file.h"
#include "shardlight/plan/builtin_models.h"
#include "shardlight/plan/hf_config.h"
#include "shardlight/plan/safetensors_header.h"

namespace shardlight::cli {
namespace {

constexpr Bytes kLargestConfig{std::int64_t{16} << 20};

// The option and the path in front of what is wrong in a file: "--model: tiny/config.json: n_embd".
template <class T>
Result<T> located(Result<T> result, const std::string& place) {
  if (result || result.error().category() != ErrorCategory::kUser) return result;
  return Failure(std::move(result).error().within(place, ": "));
}

Result<plan::Model> from_safetensors(const std::string& field, const std::string& path) {
  const std::string place = field + ": " + path;
  SHARDLIGHT_TRY(const io::File file, io::File::open(path));
  const Bytes prefix_size = std::min(file.size(), plan::kSafetensorsPrefix);
  SHARDLIGHT_TRY(const std::string prefix, file.read(Bytes(0), prefix_size));
  SHARDLIGHT_TRY(const Bytes header_size,
                 located(plan::safetensors_header_size(prefix, file.size()), place));
  SHARDLIGHT_TRY(const std::string header, file.read(plan::kSafetensorsPrefix, header_size));
  const Bytes data = file.size() - plan::kSafetensorsPrefix - header_size;
  return located(plan::model_from_safetensors_header(header, data, path), place);
}

Result<plan::Model> from_config(const std::string& field, const std::string& path,
                                const std::string& name) {
  SHARDLIGHT_TRY(const std::string text, io::read_file(path, kLargestConfig));
  return located(plan::model_from_hf_config(text, name), field + ": " + path);
}

// "model-00001-of-00009.safetensors", or the index beside such files.
bool is_part_of_a_model(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.ends_with(".safetensors.index.json") ||
         (name.ends_with(".safetensors") && name.find("-of-") != std::string::npos);
}

Result<plan::Model> unknown(const std::string& field, const std::string& source) {
  std::vector<std::string> names;
  for (const plan::BuiltinModel& model : plan::builtin_models()) names.emplace_back(model.name);
  return user_error(field, source,
                    did_you_mean(names, source) +
                        "a built-in name (shardlight plan models lists them), a Hugging Face "
                        "config.json or the folder that holds one, or a .safetensors file");
}

}  // namespace

Result<plan::Model> load_model(const std::string& field, const std::string& source) {
  for (const plan::BuiltinModel& model : plan::builtin_models()) {
    if (model.name == source) return plan::builtin_model(source);
  }
  const std::string config = source + "/config.json";
  switch (io::path_kind(source)) {
    case io::PathKind::kMissing:
      return unknown(field, source);
    case io::PathKind::kFolder:
      if (io::path_kind(config) != io::PathKind::kMissing)
        return from_config(field, config, source);
      return user_error(field, source, "a folder only with a config.json in it");
    case io::PathKind::kOther:
      break;
  }
  if (is_part_of_a_model(source)) {
    return user_error(
        field, source,
        "a whole model: of one in several files, give the folder with its config.json");
  }
  if (source.ends_with(".safetensors")) return from_safetensors(field, source);
  return from_config(field, source, source);
}

}  // namespace shardlight::cli
