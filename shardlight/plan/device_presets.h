// Devices by name: memory and peak rate of dense matrix work, as their makers publish them.
// What a device reaches in training is Compute::efficiency of the peak. Constant data; any thread.
#pragma once

#include <string>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"
#include "shardlight/plan/precision.h"

namespace shardlight::plan {

struct DevicePreset {
  std::string name;
  Bytes memory;  // of what the name says, in units of 10^9
  double peak_flops_16_bit = 0;
  double peak_flops_fp32 = 0;  // without TF32, which torch uses only when told to

  double peak_flops(Precision precision) const {
    return precision == Precision::kMixed ? peak_flops_16_bit : peak_flops_fp32;
  }
};

const std::vector<DevicePreset>& device_presets();
// Errors (user, `device`): unknown, with the nearest name.
Result<DevicePreset> device_preset(const std::string& name);

}  // namespace shardlight::plan
