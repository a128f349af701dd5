// Where the values of each unit are on this rank: here, in memory that operators may read, or away.
// It brings a unit when an operator uses one of its parameters and sends units away to stay within
// the cap, least recently used first. It knows placements, never stages: a replicated unit has
// memory for good, which is out of date after a step, until it is brought again in place; a sharded
// one gets a piece of the arena; a shared one is seen where the host's ranks share it.
//
// Operators may use parameters from several threads at once (pin, unpin); the rest is for the
// thread that steps the engine, while no operator runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/engine/managed_parameter.h"
#include "shardlight/engine/model_layout.h"
#include "shardlight/engine/torch_meter.h"
#include "shardlight/memory/arena.h"

namespace shardlight::engine {

struct GatherCount {
  std::int64_t gathers = 0;
  Bytes wire_bytes;  // of the others' slices
  Seconds waited{0};
  Bytes peak;  // of what was gathered at once
};

class Residency {
 public:
  // The transport, the parameters and the account outlive it. The values are those of rank 0's
  // model and are in the shards when it returns. Errors: the transport's, no memory.
  static Result<std::unique_ptr<Residency>> create(
      const ModelLayout& layout, const Options& options, ManagedParameters& parameters,
      comm::Transport& transport, memory::Account& account, const TorchMeter& meter);

  // An operator is about to use the parameter: its unit stays here until unpin. False if that
  // failed; the reason is kept in error() and in what the storage says when it is read.
  bool pin(ManagedParameter& parameter, bool writes, const char* operator_name);
  void unpin(ManagedParameter& parameter, bool wrote);

  // The first thing that went wrong in an operator; it stays.
  std::optional<Error> error() const;

  // Parameters of this rank were changed by something else than the optimizer.
  bool edited() const;
  // Makes the edits of all ranks the values of all: together on all ranks, which must have made the
  // same ones. Errors (user): a parameter that differs from rank to rank.
  Status settle_edits();

  // What the optimizer of this rank steps: its slice of the unit, or all of it.
  std::span<float> stepped(layout::UnitIndex unit);
  // The step has changed the unit: publishes this rank's slice, and the rest is out of date.
  Status stepped_done(layout::UnitIndex unit);
  // Brings the unit and holds it here until unhold: for whole values outside of operators.
  Status hold(layout::UnitIndex unit, bool writes);
  void unhold(layout::UnitIndex unit);
  // The whole unit's values while it is held.
  std::span<const float> values(layout::UnitIndex unit) const;

  // Gives every parameter memory of its own with its values, through the transport; nothing is
  // managed any more. After an error of the transport the values are gone, and reading them says
  // so.
  Status let_go();

  GatherCount count() const;

 private:
  struct UnitState {
    std::vector<ManagedParameter*> members;
    std::byte* memory = nullptr;  // where the values are or will be
    memory::Buffer own_copy;      // of a shared unit, once an edit needs one
    bool here = false;
    bool edited = false;
    int pins = 0;
    std::int64_t version = 1;
    std::int64_t last_use = 0;
  };

  Residency(const ModelLayout& layout, const Options& options, comm::Transport& transport,
            memory::Account& account, const TorchMeter& meter);
  Status start(ManagedParameters& parameters);
  Status publish_initial(layout::UnitIndex unit);
  Bytes cap(const Options& options) const;

  Status prepare_edit(UnitState& unit, layout::UnitIndex index);
  Status settle_edit(layout::UnitIndex unit);
  Status bring(layout::UnitIndex unit, const char* for_what);
  Status find_memory(layout::UnitIndex unit, const char* for_what);
  // The one to send away next; none if all are in use.
  std::optional<layout::UnitIndex> victim() const;
  void show(UnitState& unit);
  void send_away(layout::UnitIndex unit);
  void fail(ManagedParameter& parameter, const Error& error);
  bool sharded() const { return layout_->placements.parameters.sharded(); }

  const ModelLayout* layout_;
  comm::Transport* transport_;
  memory::Account* account_;
  const TorchMeter* meter_;
  Bytes gathered_bytes_;
  bool shared_units_;
  bool retain_;
  Seconds deadline_;

  mutable std::mutex mutex_;
  std::vector<UnitState> units_;
  std::optional<memory::Arena> arena_;
  std::optional<layout::UnitIndex> last_used_;
  std::optional<Error> error_;
  std::int64_t clock_ = 0;
  GatherCount count_;
};

}  // namespace shardlight::engine
