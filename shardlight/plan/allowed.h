// The words that errors of this folder use for what may stand somewhere, in one place, so that the
// same mistake reads the same in a config, a file's header and a model's name. Internal to plan.
// Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace shardlight::plan {

// "a whole number from 1 to 64"
std::string allowed_whole_number(std::int64_t min, std::int64_t max);

// "true or false"
std::string allowed_flag();

}  // namespace shardlight::plan
