// A setting's value: read from JSON or from a flag's text, checked against what its row allows, and
// shown. What every kind of field takes is written here once. Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shardlight/base/result.h"
#include "shardlight/cli/report.h"
#include "shardlight/cli/train/settings.h"

namespace shardlight::cli {

// What may stand there: "a whole number from 1 to 1000", "one of: adamw, adam, sgd".
std::string allowed_for(const Setting& setting);

// Errors (user): by the setting's path, and below it for a group of parameters.
Status set_from_json(const Setting& setting, const nlohmann::json& value, TrainConfig& config);
// Of a flag; `text` as arguments.h gives it. Errors (user): by the flag.
Status set_from_flag(const Setting& setting, const std::string& text, TrainConfig& config);

// Whether it changes anything: what it needs of another setting is so (SettingNeeds).
bool means_something(const Setting& setting, const TrainConfig& config);

// As a person reads it, and exactly.
std::string shown_value(const Setting& setting, const TrainConfig& config);
Value exact_value(const Setting& setting, const TrainConfig& config);

}  // namespace shardlight::cli
