// Where the values of each unit are on this rank: here, in memory that operators may read, or away.
// It brings a unit when an operator uses one of its parameters and sends units away to stay within
// the cap: the one foreseen to be used last, in the first micro-step the least recently used. With
// a lane it also brings ahead what is foreseen next. It knows placements, never stages.
//
// Operators may use parameters from several threads at once (pin, unpin); the rest is for the
// thread that steps the engine, while no operator runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardlight/comm/lane.h"
#include "shardlight/comm/transport.h"
#include "shardlight/engine/forks.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/model_layout.h"
#include "shardlight/engine/torch_meter.h"
#include "shardlight/engine/use_trace.h"
#include "shardlight/memory/arena.h"

namespace shardlight::engine {

class Building;
class Carry;

// Where the first values come from, if not from the parameters' own memory.
struct FirstValues {
  Building* building = nullptr;  // the model is being built
  Carry* carried = nullptr;      // the engine had those that are managed already
};

struct GatherCount {
  std::int64_t gathers = 0;
  Bytes wire_bytes;             // of the others' slices
  std::int64_t ahead = 0;       // of the gathers, how many began before their unit was used
  std::int64_t unforeseen = 0;  // uses that the micro-step before did not have
  Seconds waited{0};
  Bytes peak;  // of what was gathered at once
};

class Residency final : public Keeper {
 public:
  // The layout, the transport, the parameters and the account outlive it; the meter does until the
  // last use of a parameter. The values are those of rank 0's model, or carried, and are in the
  // shards when it returns. Errors: the transport's, no memory.
  static Result<std::unique_ptr<Residency>> create(
      const ModelLayout& layout, const Options& options, ManagedTensors& parameters,
      comm::Transport& transport, memory::Account& account, const TorchMeter& meter,
      FirstValues values = {});

  // Parameters that it still has are lost, and say so: let_go() comes before, unless it was never
  // made whole.
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;
  Residency(Residency&&) = delete;
  Residency& operator=(Residency&&) = delete;

  // The whole unit of the parameter comes, and stays until unpin.
  bool pin(ManagedTensor& parameter, bool writes, const char* operator_name) override;
  void unpin(ManagedTensor& parameter) override;

  // The first thing that went wrong in an operator; it stays.
  std::optional<Error> error() const;

  // A micro-step has ended: its uses are what the next one is foreseen to have.
  void end_micro_step();
  // Begins to bring what is foreseen next.
  void look_ahead();
  // Until nothing is on its way here.
  Status settle_gathers();

  // Parameters of this rank were changed by something else than the optimizer.
  bool edited() const;
  // Makes the edits of all ranks the values of all: together on all ranks, which must have made the
  // same ones. What was edited. Errors (user): a parameter that differs from rank to rank.
  Result<std::vector<layout::UnitIndex>> settle_edits();

  // What the optimizer of this rank steps: its slice of the unit, or all of it.
  std::span<std::byte> stepped(layout::UnitIndex unit);
  // The step has changed the unit: publishes this rank's slice, and the rest is out of date.
  Status stepped_done(layout::UnitIndex unit);
  // Brings the unit and holds it here until unhold: for whole values outside of operators.
  Status hold(layout::UnitIndex unit, bool writes);
  void unhold(layout::UnitIndex unit);
  // A unit that is held or in use by an operator.
  std::optional<layout::UnitIndex> held() const;

  // Gives every parameter memory of its own with its values, and all other memory back; nothing is
  // managed any more. What is away and does not come is lost, and reading it says why; with
  // `not_gathered`, for that reason, all that is away. Errors: the last reason but that one.
  Status let_go(const std::optional<Error>& not_gathered);

  // The same for some parameters (by index), all ranks together, while nothing is edited. After an
  // error some of them may still be here.
  Status let_go_of(const std::vector<bool>& parameters);
  // Another residency has the parameters from now on; this one serves nobody any more.
  void leave();

  GatherCount count() const;

 private:
  struct UnitState {
    std::vector<ManagedTensor*> members;
    std::byte* memory = nullptr;  // where the values are or will be
    memory::Buffer own_copy;      // of a shared unit, once an edit needs one
    bool here = false;
    bool edited = false;
    std::optional<comm::Handle> coming;
    int pins = 0;
    std::int64_t version = 1;
    std::int64_t last_use = 0;
  };

  Residency(const ModelLayout& layout, const Options& options, comm::Transport& transport,
            memory::Account& account, const TorchMeter& meter);
  Status start(ManagedTensors& parameters, FirstValues values);
  Status publish_initial(layout::UnitIndex unit, Building* building);
  Status publish_carried(layout::UnitIndex unit, Carry& carried);
  void copy_own_part(const ManagedTensor& parameter, std::span<const std::byte> values,
                     std::span<std::byte> shard) const;
  Bytes cap(const Options& options) const;

  Status prepare_edit(UnitState& unit, layout::UnitIndex index);
  Status settle_edit(layout::UnitIndex unit);
  Status bring(layout::UnitIndex unit, const char* for_what);
  void end_last_use(layout::UnitIndex next);
  Status gather(layout::UnitIndex unit, const char* for_what);
  Status find_memory(layout::UnitIndex unit, const char* for_what);
  Result<std::optional<layout::UnitIndex>> await_any();
  bool find_memory_ahead(layout::UnitIndex unit);
  void begin_ahead();
  void count_gather(layout::UnitIndex unit);
  // The one to send away next; none if all are in use, or coming.
  std::optional<layout::UnitIndex> victim() const;
  void lose(UnitState& unit, const std::string& why);
  Status give_back(layout::UnitIndex index, std::span<ManagedTensor* const> members,
                   const std::optional<Error>& not_gathered);
  void show(UnitState& unit);
  void begin_use(ManagedTensor& parameter) const;
  void end_use(ManagedTensor& parameter) const;
  void send_away(layout::UnitIndex unit);
  void fail(ManagedTensor& parameter, const Error& error);
  bool sharded() const { return layout_->placements.parameters.sharded(); }

  const ModelLayout* layout_;
  comm::Transport* transport_;
  memory::Account* account_;
  const TorchMeter* meter_;
  Bytes gathered_bytes_;
  Bytes prefetch_bytes_;
  bool shared_units_;
  bool cap_given_;
  bool retain_;
  bool poison_;
  int forks_ = forks();
  Seconds deadline_;

  mutable std::mutex mutex_;
  std::vector<UnitState> units_;
  std::optional<memory::Arena> arena_;
  std::optional<layout::UnitIndex> last_used_;
  bool last_use_in_backward_ = false;
  bool gone_ = false;
  UseTrace trace_;
  Bytes coming_bytes_;
  std::optional<Error> error_;
  std::int64_t clock_ = 0;
  GatherCount count_;
  std::unique_ptr<comm::Lane> lane_;  // the last one: it ends before what it writes to
};

}  // namespace shardlight::engine
