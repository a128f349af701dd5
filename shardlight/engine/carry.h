// One kind of value (the parameters themselves, their masters, or an optimizer state) on its way
// from the slices that ranks had of a model's units to those they have once the model has changed.
// Pieces go from rank to rank, and an old slice ends as soon as nothing more is read from it, so
// that no more than a unit is held twice. It knows no tensors. One thread; all ranks together, unit
// after unit in ascending order. The transport outlives it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/engine/model_layout.h"
#include "shardlight/layout/reshard.h"
#include "shardlight/memory/buffer.h"

namespace shardlight::engine {

// By parameter of the model before, which it is in the model after; none if it is not carried.
using Renumbering = std::vector<std::optional<layout::ParameterIndex>>;

class Carry {
 public:
  // `slices`: this rank's of the units before, cut by `placement` as those after; empty where a
  // unit has nothing that is carried.
  static Result<Carry> create(const ModelLayout& before, const ModelLayout& after,
                              const layout::Placement& placement, const Renumbering& renumbering,
                              std::vector<memory::Buffer> slices, comm::Transport& transport,
                              Seconds deadline);

  // Writes what is carried into this rank's slice of a unit after, and leaves the rest as it is.
  // `dtype` is that of the values. Errors: the transport's.
  Status fill(layout::UnitIndex unit, std::span<std::byte> slice, layout::DType dtype);

 private:
  Carry(std::vector<layout::ReshardCopy> copies, std::vector<memory::Buffer> slices,
        comm::Transport& transport, Seconds deadline);
  Status move(const layout::ReshardCopy& copy, std::span<std::byte> slice, Bytes each);

  std::vector<layout::ReshardCopy> copies_;                 // by unit after
  std::vector<memory::Buffer> slices_;                      // by unit before
  std::vector<std::optional<layout::UnitIndex>> last_use_;  // by unit before: the unit after
  comm::Transport* transport_;
  Seconds deadline_;
};

}  // namespace shardlight::engine
