// What ranks must know of each other before any of them steps: whether someone has late gradients,
// which parameters anyone used, the norm of the whole gradient, whether all of it is finite. Each
// is one small all-reduce or a few; all ranks call them in the same order. No torch.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/engine/exact_sum.h"

namespace shardlight::engine {

struct StepFlags {
  bool late = false;    // gradients came after their unit was reduced
  bool unused = false;  // a trainable parameter had no gradient
  bool edited = false;  // a parameter was changed outside of the optimizer
};

// Any rank's flags. No rank leaves before every rank has come: also the barrier at a step's entry.
Result<StepFlags> agree(comm::Transport& transport, StepFlags mine, comm::Deadline deadline);

// By parameter, whether any rank used it.
Status agree_on_used(comm::Transport& transport, std::vector<bool>& used, comm::Deadline deadline);

// Whether all ranks have the same bytes in each span; the first that differs, or none.
Result<std::optional<std::size_t>> first_difference(
    comm::Transport& transport, const std::vector<std::span<const std::byte>>& spans,
    comm::Deadline deadline);

struct NormAgreement {
  double norm = 0;
  bool finite = true;
};

// The norm over all ranks from the sums of squares of each; the same bits for any cut.
Result<NormAgreement> agree_on_norm(comm::Transport& transport, const ExactSum& squares,
                                    bool finite, comm::Deadline deadline);

}  // namespace shardlight::engine
