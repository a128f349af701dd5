// Whether what was written to a stream arrived. A stream keeps a failed write to itself until it is
// asked, so everything that writes to standard output ends with this. Not for files (io/). One
// thread at a time.
#pragma once

#include <iosfwd>

#include "shardlight/base/result.h"

namespace shardlight::cli {

// Errors (environment): something that was written to `out`, now or before, did not arrive.
Status flush_output(std::ostream& out);

}  // namespace shardlight::cli
