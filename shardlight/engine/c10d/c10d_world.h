// Ranks as those of a torch.distributed process group: the exchange over its collectives, for
// whatever fabric torch has. The group comes from Python, as a Gloo group cannot be made from the
// headers in PyTorch's wheel. Not one-sided (comm/transport.h): docs/exchange.md says what that
// asks of the ranks, and what they are told.
//
// A transport has the group to itself while it lives, and keeps a reference to it and to the store.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/engine/ranks.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace shardlight::engine {

struct C10dOptions {
  // Of the host, for what goes out and for what comes in each, from 1 MiB on.
  Bytes staging{std::int64_t{4} << 20};
  // How long a rank that gives up waits for what the others say of themselves.
  Seconds grace{1};
};

// Meets the other ranks of the group, with the same units and options. `store` is one that all of
// them reach, such as the group's own or the job's. A difference, a rank that does not come or one
// that has a user error, is an error of every rank, by name; all may try again. Errors: a user
// error of the field `group` where it has no backend for CPU tensors or another transport of this
// process has it, of `staging`, or as check_units; of the field `transport` where PyTorch was built
// without torch.distributed; else environment errors.
Result<std::unique_ptr<comm::Transport>> connect_c10d(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::Store>& store, std::vector<comm::UnitSpec> units,
    comm::Deadline deadline, const C10dOptions& options = {});

// The ranks of an engine over the group; `deadline` is that of connecting.
Result<Ranks> ranks_of_process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                     const c10::intrusive_ptr<c10d::Store>& store, Seconds deadline,
                                     const C10dOptions& options = {});

}  // namespace shardlight::engine
