// Numbers as people write them: "7.5e9", "7.5B", "32GB", "80 GiB", "5us", "12.5GB/s".
//
// Counts and bytes are exact: digits are read as decimals, never through a double, and a value
// that is not whole (1.5 parameters) is refused. `field` names the option or key in the error.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight {

// Inclusive bounds of an accepted value.
struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

// Suffixes K, M, B (or G), T in either case: powers of 1000. "124439808", "7.5e9", "7.5B".
Result<std::int64_t> parse_count(const std::string& field, std::string_view text,
                                 IntegerRange range);

// A suffix is needed: B, kB, MB, GB, TB: powers of 1000; KiB, MiB, GiB, TiB: powers of 1024.
Result<Bytes> parse_bytes(const std::string& field, std::string_view text, IntegerRange range);

// Bytes per second: as bytes, followed by "/s" or nothing.
Result<std::int64_t> parse_bytes_per_second(const std::string& field, std::string_view text);

// Suffixes ns, us, ms, s. Zero and more.
Result<Seconds> parse_seconds(const std::string& field, std::string_view text);

// A decimal number within [min, max], with an exponent or without: "0.4", "312e12".
Result<double> parse_number(const std::string& field, std::string_view text, double min,
                            double max);

}  // namespace shardlight
