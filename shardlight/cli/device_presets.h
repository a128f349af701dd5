// Devices by name: memory and peak rate of 16-bit dense matrix work, as their makers publish them.
// What a device reaches in training is --efficiency of the peak. Constant data; any thread.
#pragma once

#include <string>

#include "shardlight/base/result.h"
#include "shardlight/base/units.h"

namespace shardlight::cli {

struct DevicePreset {
  std::string name;
  Bytes memory;  // of what the name says, in units of 10^9
  double peak_flops;
};

// Errors (user, `field`): unknown, with the nearest name.
Result<DevicePreset> device_preset(const std::string& field, const std::string& name);

// One line for --help with all the names.
const char* device_help();

}  // namespace shardlight::cli
