// In place of the folder's other sources where MPI is not installed.
#include "shardlight/comm/mpi/mpi_world.h"

namespace shardlight::comm {

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of who keeps them
Result<std::unique_ptr<Transport>> connect_mpi(std::vector<UnitSpec> /*units*/,
                                               Deadline /*deadline*/, MpiOptions /*options*/) {
  return user_error("transport", "mpi (not built: MPI was not found)",
                    "threads or shm; or install libopenmpi-dev and openmpi-bin and build again");
}

}  // namespace shardlight::comm
