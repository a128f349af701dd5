// "Did you mean": the known name closest to a mistyped one, and how an error lists what is known.
// For names on a command line, in a config, in a file's header. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardlight {

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours), if
// that is at most a third of the longer name; the first of equals.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

// "did you mean b? ", or nothing.
std::string did_you_mean(std::span<const std::string> candidates, std::string_view given);

// What an error says is allowed: "one of: a, b, c", after "did you mean b?" where b is near.
std::string one_of(std::span<const std::string> candidates, std::string_view given);

}  // namespace shardlight
