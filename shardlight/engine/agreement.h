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

// Makes each flag that of any rank. No rank leaves before every rank has come, if there is a flag.
Status agree_on_any(comm::Transport& transport, std::vector<bool>& flags, comm::Deadline deadline);

// What a rank's last backward of a step left to be done.
struct BackwardFlags {
  bool late = false;    // gradients came after their unit was reduced
  bool unused = false;  // a trainable parameter had no gradient
  bool active = false;  // it has batches, or had one in this step
};
Result<BackwardFlags> agree(comm::Transport& transport, BackwardFlags mine,
                            comm::Deadline deadline);

// What was changed outside of the optimizer. Also the barrier at a step's entry. Errors (user): an
// lr_factor, or settings of the optimizer, by their hash, that differ from rank to rank.
struct StepFlags {
  bool parameters_edited = false;
  bool gradients_edited = false;
  double lr_factor = 1;
  std::uint64_t optimizer_settings = 0;
};
Result<StepFlags> agree(comm::Transport& transport, StepFlags mine, comm::Deadline deadline);

// Whether all ranks have the same bytes in each span, by a hash of 64 bits; the first that differs,
// or none.
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
