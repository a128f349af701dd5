// In place of the folder's other sources where PyTorch has no torch.distributed.
#include "shardlight/engine/c10d/c10d_world.h"

namespace shardlight::engine {
namespace {

Failure not_built() {
  return user_error("transport", "c10d (not built: this PyTorch has no torch.distributed)",
                    "threads, shm or mpi; or a PyTorch that was built with USE_DISTRIBUTED");
}

}  // namespace

Result<std::unique_ptr<comm::Transport>> connect_c10d(
    const c10::intrusive_ptr<c10d::ProcessGroup>& /*group*/,
    const c10::intrusive_ptr<c10d::Store>& /*store*/,
    // NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of who keeps them
    std::vector<comm::UnitSpec> /*units*/, comm::Deadline /*deadline*/,
    const C10dOptions& /*options*/) {
  return not_built();
}

Result<Ranks> ranks_of_process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& /*group*/,
                                     const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                     Seconds /*deadline*/, const C10dOptions& /*options*/) {
  return not_built();
}

}  // namespace shardlight::engine
