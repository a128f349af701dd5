// Reading gzipped files (RFC 1952) whole, by zlib. Not a stream: what is read stays in memory.
// Any thread.
#pragma once

#include <string>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight::io {

// The file's content, of at most `max` bytes; several members follow each other, as gzip says.
// Errors (environment): what reading says; not gzip, damaged or cut short; larger than `max`.
Result<std::string> read_gzip(const std::string& path, Bytes max);

}  // namespace shardlight::io
