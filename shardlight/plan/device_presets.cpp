#include "shardlight/plan/device_presets.h"

#include "shardlight/base/nearest.h"

namespace shardlight::plan {

const std::vector<DevicePreset>& device_presets() {
  // NVIDIA's data sheets of the V100 (2020), A100 (2021), H100 and H200 SXM (2024), no sparsity.
  static const std::vector<DevicePreset> kPresets = {
      {"v100-32gb", Bytes(32'000'000'000), 125e12, 15.7e12},
      {"a100-40gb", Bytes(40'000'000'000), 312e12, 19.5e12},
      {"a100-80gb", Bytes(80'000'000'000), 312e12, 19.5e12},
      {"h100-80gb", Bytes(80'000'000'000), 989e12, 67e12},
      {"h200-141gb", Bytes(141'000'000'000), 989e12, 67e12}};
  return kPresets;
}

Result<DevicePreset> device_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const DevicePreset& preset : device_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  return user_error("device", name, one_of(names, name));
}

}  // namespace shardlight::plan
