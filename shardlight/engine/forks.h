// How often this process is a child by fork of one that used engines: an engine belongs to the
// process that made it, as its threads and its place in the exchange do not come along. Any thread.
#pragma once

namespace shardlight::engine {

// Grows by one in each child.
int forks();

}  // namespace shardlight::engine
