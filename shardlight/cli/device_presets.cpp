#include "shardlight/cli/device_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "shardlight/base/nearest.h"

namespace shardlight::cli {
namespace {

// NVIDIA's data sheets of the V100 (2020), A100 (2021), H100 and H200 SXM (2024), without sparsity.
const std::vector<DevicePreset>& presets() {
  static const std::vector<DevicePreset> kPresets = {
      {"v100-32gb", Bytes(32'000'000'000), 125e12},
      {"a100-40gb", Bytes(40'000'000'000), 312e12},
      {"a100-80gb", Bytes(80'000'000'000), 312e12},
      {"h100-80gb", Bytes(80'000'000'000), 989e12},
      {"h200-141gb", Bytes(141'000'000'000), 989e12}};
  return kPresets;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const DevicePreset& preset : presets()) all.push_back(preset.name);
  return all;
}

}  // namespace

Result<DevicePreset> device_preset(const std::string& field, const std::string& name) {
  for (const DevicePreset& preset : presets()) {
    if (preset.name == name) return preset;
  }
  return user_error(field, name, one_of(names(), name));
}

const char* device_help() {
  static const std::string kHelp = fmt::format("Memory and peak of: {}", fmt::join(names(), ", "));
  return kHelp.c_str();
}

}  // namespace shardlight::cli
