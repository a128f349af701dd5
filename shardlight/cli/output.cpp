#include "shardlight/cli/output.h"

#include <ostream>

namespace shardlight::cli {

Status flush_output(std::ostream& out) {
  if (out.flush()) return {};
  return Failure(Error::environment({.operation = "writing the output"}, "it could not be written",
                                    Unusable::kOperation));
}

}  // namespace shardlight::cli
