// Sees every operator before it runs and every use of a managed tensor in it: the one callback
// that all engines of the process share (at::RecordFunction). It keeps no list of engines: a
// storage says whose it is. An operator's managed tensors are pinned until it ends; pure views do
// not count as uses. It is called on whatever thread runs the operator.
#pragma once

#include <memory>

namespace shardlight::engine {

// The callback is there as long as one of these is.
class Touch {
 public:
  Touch();
  ~Touch();
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;
  Touch(Touch&&) = delete;
  Touch& operator=(Touch&&) = delete;
};

}  // namespace shardlight::engine
