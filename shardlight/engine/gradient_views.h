// What users see in .grad between the last backward and step: the mean gradient over ranks and
// micro-steps, whole, at every stage. Each is a managed tensor that points nowhere until it is
// used; then its unit's mean comes to this rank, and stays until the step. What users change there,
// on all ranks alike, is what the optimizer steps with. Between micro-steps .grad is empty.
//
// Operators may use gradients from several threads at once (pin, unpin); the rest is for the thread
// that steps the engine, while no operator runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/engine/gradients.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/model_layout.h"
#include "shardlight/memory/buffer.h"

namespace shardlight::engine {

class GradientViews final : public Keeper {
 public:
  // All outlive it.
  GradientViews(const ModelLayout& layout, const Options& options, const ManagedTensors& parameters,
                Gradients& gradients, comm::Transport& transport, memory::Account& account);
  ~GradientViews();
  GradientViews(const GradientViews&) = delete;
  GradientViews(GradientViews&&) = delete;
  GradientViews& operator=(const GradientViews&) = delete;
  GradientViews& operator=(GradientViews&&) = delete;

  bool pin(ManagedTensor& gradient, bool writes, const char* operator_name) override;
  void unpin(ManagedTensor& gradient) override;
  // The first thing that went wrong in an operator; it stays.
  std::optional<Error> error() const;

  // After the last micro-step: .grad of the parameters that `used` says; `mean` is what makes the
  // mean of a raw sum.
  void show(const std::vector<bool>& used, double mean);

  // A copy of the mean gradient, with what the user has changed.
  Result<at::Tensor> read(const ManagedTensor& parameter);

  // Takes what users put into .grad instead of ours, and says whether anything was changed on this
  // rank. Errors (user): a gradient that was taken out, or one of another shape or kind.
  Result<bool> take_edits(const std::vector<bool>& used);
  // Makes the edits of all ranks what is stepped with: together on all ranks, which must have made
  // the same ones. Errors (user): a gradient that differs from rank to rank.
  Status settle_edits();
  // The step is done: .grad is empty again and its memory given back.
  void end_step();

 private:
  struct UnitState {
    std::vector<std::unique_ptr<ManagedTensor>> members;  // while they are shown
    comm::SumSpan sum;                                    // once here; in fp32 it is the mean
    memory::Buffer buffer;                                // of it, where gradients are sharded
    memory::Buffer rounded;                               // the mean in the parameters' 16 bits
    std::byte* memory = nullptr;                          // what users see
    bool here = false;
    bool edited = false;
  };

  Status bring(layout::UnitIndex unit);
  void retire_all(const char* why);
  // What users see of a unit of 16-bit parameters.
  at::Tensor rounded(layout::UnitIndex index) const;
  at::Tensor values_of(const ManagedTensor& gradient) const;

  const ModelLayout* layout_;
  const ManagedTensors* parameters_;
  Gradients* gradients_;
  comm::Transport* transport_;
  memory::Account* account_;
  double mean_ = 1;
  Seconds deadline_;

  mutable std::mutex mutex_;
  std::vector<UnitState> units_;
  bool shown_ = false;
  std::optional<Error> error_;
};

}  // namespace shardlight::engine
