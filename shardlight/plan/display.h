// How numbers are shown: the display rule of the ledger (docs/memory.md). Compute first, then show;
// rounding is done on whole numbers, so a half is a half.
// Pure; any thread.
#pragma once

#include <string>

#include "shardlight/base/quantity.h"
#include "shardlight/plan/share.h"

namespace shardlight::plan {

inline constexpr std::int64_t kGigabyte = 1'000'000'000;

// `value` in units of `unit` bytes: the integer part from 100 on, at most one decimal from 10 on,
// at most two below, half up, without trailing zeros. 257.75 is "257", 41.25 "41.3", 1.50 "1.5".
// What is more than zero but would show as "0" is "<0.01".
std::string show_in(Bytes unit, Share value);
std::string show_gb(Share value);

// The largest of B, kB, MB, GB of which `value` has at least one, with its name, as in "12.3 MB".
std::string show_bytes(Share value);

struct ByteUnit {
  const char* name = "B";
  Bytes bytes{1};
};
ByteUnit unit_for(Share largest);

// At most one decimal, half up, with K, M, B or T: "7.5B", "124.4M", "512".
std::string show_count(Count count);
// In billions whatever the size, at most one decimal: "2048B", "0.1B".
std::string show_billions(Count count);
// As Table 2 prints it: from 500 billion on in trillions ("0.5T").
std::string show_paper_count(Count count);

// At most two decimals below 10, one below 100, none above, without trailing zeros: "3.82".
std::string show_ratio(double ratio);
// "412 us", "1.25 s".
std::string show_seconds(Seconds seconds);

}  // namespace shardlight::plan
