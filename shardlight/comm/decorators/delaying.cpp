#include "shardlight/comm/decorators/delaying.h"

#include <thread>

namespace shardlight::comm {

Status Delaying::before(const Operation& /*operation*/) {
  std::this_thread::sleep_for(longest_ * random_.uniform(calls_++));
  return {};
}

}  // namespace shardlight::comm
