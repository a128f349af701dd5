// JSON from outside, made safe to walk: no exceptions, no value given twice, no NUL, no nesting
// that could exhaust the stack. Internal to this tree; a pure function of the text, safe on any
// bytes and from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shardlight/base/result.h"

namespace shardlight::plan {

// The JSON object that `text` is. `field` names the whole text in errors. Errors (user): the text
// is not JSON (the value says at which byte), not an object, nested deeper than 128 (the limit of
// safetensors' own parser), or has a key twice in one object (the field is the key's path).
Result<nlohmann::json> parse_json_object(const std::string& field, std::string_view text);

// A value as an error shows it: numbers, words and strings as JSON writes them, long strings cut,
// "a list" and "an object" for what has parts. Never empty.
std::string shown(const nlohmann::json& value);

}  // namespace shardlight::plan
