// The gradients of a step on their way from backward into the units' sums: they arrive parameter by
// parameter, and when all of a unit's are there it is reduced, while backward goes on with the
// next. What is incomplete when a backward ends is reduced then, in the order of units. It knows
// the gradients' placement and the reduce setting, never the stage.
//
// arrive() comes from autograd's thread, one at a time; own_sum() and read() also from operators'
// threads, under the lock of the gradient views; all else from the thread that steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shardlight/comm/lane.h"
#include "shardlight/comm/transport.h"
#include "shardlight/engine/local_gradients.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/model_layout.h"

namespace shardlight::engine {

class Gradients {
 public:
  // All outlive it. Errors: no memory.
  static Result<std::unique_ptr<Gradients>> create(const ModelLayout& layout,
                                                   const Options& options,
                                                   const ManagedTensors& parameters,
                                                   comm::Transport& transport,
                                                   memory::Account& account);

  // Takes the parameter's .grad. Errors: of the transport; a sparse gradient (user).
  Status arrive(const ManagedTensor& parameter);
  // The backward of a micro-step has ended on this rank.
  Status end_backward();
  // Whether backward passes count as micro-steps from now on. One that does not is added to the
  // next one that does; where this rank keeps gradients of its own it is reduced with that, too.
  void count_micro_steps(bool counts) { counts_ = counts; }
  std::int64_t micro_steps() const { return micro_step_; }

  // After the last one, all ranks together: reduces what came after its unit was reduced, and
  // makes used() what any rank used. False if no rank is `active`: there is nothing to step with.
  Result<bool> complete(bool active);
  // By parameter, whether this rank had a gradient of it in this step.
  const std::vector<bool>& used() const { return used_; }

  // After the last micro-step, on all ranks: this rank's slice of the unit's raw sum; empty if no
  // rank had a gradient.
  Result<comm::SumSpan> slice(layout::UnitIndex unit);
  // What the optimizer steps with: the slice, or all of the sum where it is replicated.
  Result<comm::SumSpan> stepped(layout::UnitIndex unit);
  // The whole raw sum copied to `target` (the unit's elements), zeros if no rank had a gradient;
  // any rank by itself, once it is complete.
  Status read(layout::UnitIndex unit, const comm::SumSpan& target);
  // This rank's memory for a sum of the whole unit; empty where gradients are sharded.
  comm::SumSpan own_sum(layout::UnitIndex unit);
  // What slice() and stepped() give from now on, in this step: `mean`, in fp32 whatever the sums
  // are, the same on all ranks, none of which reads the raw sum any more. It may be own_sum().
  Status replace_by_mean(layout::UnitIndex unit, std::span<const float> mean);
  bool is_mean(layout::UnitIndex unit) const { return units_[unit].is_mean; }
  // The step has used all sums.
  Status end_step();

  // What the calls so far move to and from other ranks.
  comm::TrafficCount count() const {
    return {.gathered = Bytes(bytes_read_), .reduced = bytes_reduced_};
  }
  // Backward's, for reductions.
  Seconds waited() const { return waited_; }

 private:
  struct UnitGradients {
    std::optional<LocalGradients> local;
    std::vector<at::Tensor> pending;  // by member; only without local
    std::vector<bool> arrived;        // by member, in this micro-step
    std::vector<at::Tensor> late;     // by member
    std::size_t arrivals = 0;
    bool reduced = false;     // in this round
    std::int64_t round = -1;  // the last one taken part in
    bool fresh = true;        // the next round starts a new sum
    bool is_mean = false;     // the sum was replaced
    memory::Buffer mean;      // then, of 16-bit sums: in fp32, of what this rank steps
  };

  Gradients(const ModelLayout& layout, const Options& options, const ManagedTensors& parameters,
            comm::Transport& transport, memory::Account& account);
  // A reduction on the lane, and what it reads.
  struct InFlight {
    comm::Handle handle;
    std::vector<at::Tensor> tensors;
    Bytes bytes;
  };

  bool reduces_now(const UnitGradients& unit) const;
  bool late() const;
  Status reduce_late();
  Result<bool> gather(layout::UnitIndex unit, const comm::SumSpan& target);
  Status reduce(layout::UnitIndex unit);
  Status reduce_parts(layout::UnitIndex unit, std::span<const comm::GradientPart> parts,
                      std::vector<at::Tensor> tensors);
  // Waits for the oldest reductions until at most so many bytes are in flight.
  Status wait_down_to(Bytes bytes);
  std::vector<comm::GradientPart> pending_parts(layout::UnitIndex unit,
                                                const std::vector<at::Tensor>& tensors) const;
  Bytes bytes_for_others(layout::UnitIndex unit, const comm::Gradient& gradient) const;
  void drop(std::vector<at::Tensor>& tensors);
  void keep(at::Tensor& place, at::Tensor gradient);
  comm::Deadline deadline() const { return comm::Deadline(deadline_); }

  const ModelLayout* layout_;
  comm::Transport* transport_;
  memory::Account* account_;
  std::int64_t accumulation_;
  Seconds deadline_;
  std::vector<std::size_t> member_of_;  // by parameter: its position in its unit
  std::vector<UnitGradients> units_;
  std::vector<bool> used_;
  std::int64_t micro_step_ = 0;
  bool counts_ = true;
  Bytes bytes_reduced_;
  std::atomic<std::int64_t> bytes_read_{0};  // of sums
  Seconds waited_{0};
  Bytes bucket_bytes_;
  std::deque<InFlight> in_flight_;
  Bytes in_flight_bytes_;
  std::unique_ptr<comm::Lane> lane_;  // the last one: it ends before what it reads
};

}  // namespace shardlight::engine
