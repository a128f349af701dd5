#include "shardlight/engine/rounding.h"

#include <ATen/ops/where.h>

namespace shardlight::engine {

void take_changed(const at::Tensor& exact, const at::Tensor& rounded) {
  const at::Tensor changed =
      exact.to(rounded.scalar_type()).view(at::kShort).ne(rounded.view(at::kShort));
  exact.copy_(at::where(changed, rounded.to(at::kFloat), exact));
}

}  // namespace shardlight::engine
