#include "shardlight/comm/decorators/delaying.h"

#include <thread>

namespace shardlight::comm {

Status Delaying::around(const Operation& /*operation*/, const Make& make) {
  std::this_thread::sleep_for(longest_ * random_.uniform(calls_++));
  return make();
}

}  // namespace shardlight::comm
