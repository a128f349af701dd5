// Token files: raw little-endian uint16 or uint32, by their names ending in .u16 or .u32, beside a
// small JSON file that says what the numbers are (x.u16 and x.u16.json). examples/tokenize.py
// writes both. Internal to data; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/result.h"

namespace shardlight::data {

struct TokenFormat {
  std::int64_t bytes_per_token = 1;  // 1, 2 or 4
  std::int64_t vocabulary = 256;     // tokens are below it
  // The bytes that each token stands for; empty where they are not known.
  std::vector<std::string> pieces = {};

  bool operator==(const TokenFormat&) const = default;
};

// Of a token file by its name: what its JSON file says. Nothing for a file of another name.
// Errors: user errors by the JSON file and key (`dtype`, `vocabulary`, `pieces`), which must fit
// each other and the name; environment errors where it cannot be read.
Result<std::optional<TokenFormat>> token_format(const std::string& path);

}  // namespace shardlight::data
