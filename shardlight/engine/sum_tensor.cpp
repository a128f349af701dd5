#include "shardlight/engine/sum_tensor.h"

#include <ATen/ops/from_blob.h>

#include "shardlight/engine/managed_tensor.h"

namespace shardlight::engine {

at::Tensor tensor_of(const comm::SumSpan& sum) {
  return at::from_blob(sum.data(), {sum.elements().value()}, scalar_type_of(sum.dtype()));
}

}  // namespace shardlight::engine
