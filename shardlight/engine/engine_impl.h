// Internal to the engine: its parts and their order of work. What a step does is in
// engine_step.cpp, what is reported of it in engine_report.cpp, what it should take in
// engine_plan.cpp. Results, not exceptions: engine.cpp
// throws them.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/building.h"
#include "shardlight/engine/engine.h"
#include "shardlight/engine/forks.h"
#include "shardlight/engine/gradient_views.h"
#include "shardlight/engine/gradients.h"
#include "shardlight/engine/loss_scale.h"
#include "shardlight/engine/model_change.h"
#include "shardlight/engine/optimizer_states.h"
#include "shardlight/engine/residency.h"
#include "shardlight/engine/touch.h"
#include "shardlight/telemetry/log.h"

namespace shardlight::engine {

// What an engine without a model is told.
struct Engine::Unbuilt {
  Optimizer optimizer;
  Options options;
};

// Of a model whose parameters may be away: what keeps them, and what it works with.
struct Built {
  Building* building = nullptr;
  std::unique_ptr<comm::Transport> meeting;
  std::shared_ptr<memory::Account> account;
};

class Engine::Impl {
 public:
  // Of an optimizer and options that were checked.
  static Result<std::unique_ptr<Impl>> create(const NamedTensors& parameters,
                                              const NamedTensors& buffers,
                                              const Optimizer& optimizer, const Options& options,
                                              Built built = {});
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Impl(Impl&&) = delete;
  Impl& operator=(Impl&&) = delete;

  void backward(const at::Tensor& loss);
  at::Tensor scaled(const at::Tensor& loss);
  Result<StepReport> step();
  Result<std::int64_t> join();
  Result<std::shared_ptr<void>> no_sync();
  Status refresh(const NamedTensors& parameters, const NamedTensors& buffers);
  // This process is a child of the one that made it.
  bool forked() const { return forks() != forks_; }
  // Waits for the other ranks or leaves at once; `not_gathered` as in Residency::let_go.
  Status close(bool waits = true, const std::optional<Error>& not_gathered = {});

  // The parameter that a tensor is, or a user error.
  Result<ManagedTensor> find(const at::Tensor& tensor) const;
  Result<at::Tensor> gradient(const ManagedTensor& parameter);
  Result<at::Tensor> optimizer_state(const ManagedTensor& parameter, const std::string& name);

  // What full_state() gives as its n-th item; `last` is the tensor of the one before.
  Result<std::optional<std::pair<std::string, at::Tensor>>> state_at(std::size_t position,
                                                                     const at::Tensor& last);

  // An error if the engine cannot be used any more.
  Status check() const;
  std::optional<Error> failure() const;
  MemoryReport memory() const;
  TrafficReport traffic() const;
  Result<PlanReport> plan() const;
  const ModelLayout& layout() const { return *layout_; }
  const std::shared_ptr<Residency>& residency() { return residency_; }
  // Errors: why there is none.
  Result<comm::Transport*> transport();

 private:
  Impl(Optimizer optimizer, Options options)
      : optimizer_(std::move(optimizer)), options_(std::move(options)) {}
  Status start(const NamedTensors& parameters, const NamedTensors& buffers, Built built);
  Status connect();
  Status make_parts(FirstValues values, CarriedStates* states);
  void account_transport(int sign);
  void arrive(const ManagedTensor& parameter);
  void backward_ended();
  Status end_micro_step(bool scaled);
  void report_unused();
  telemetry::Logger logger() const;
  Status broadcast_all(const NamedTensors& buffers);
  Status broadcast(const at::Tensor& buffer);
  Result<at::Tensor> copy_of(const ManagedTensor& parameter);
  void backward_failed();
  void seed_micro_step() const;
  Status check_step() const;
  Status check_between_steps() const;
  Result<ModelChange> changed(const NamedTensors& parameters, const NamedTensors& buffers) const;
  struct Left;
  Result<Left> make_ready(const ModelChange& change);
  Status take_over(ModelChange change);
  void take_apart(ModelChange& change, Left& left);
  Status put_together(const ModelChange& change, Left left);
  void lose(const Error& why);
  Status compare_replicas();
  Result<StepReport> step_all();
  Result<NormAgreement> norm(bool some_are_means);
  Status step_units(const StepFactors& factors, const std::vector<bool>& used);
  Status publish(layout::UnitIndex unit);
  std::optional<Bytes> ledger(memory::Tag tag, const layout::Placements& placements) const;
  double mean_factor() const;
  comm::Deadline deadline() const { return comm::Deadline(options_.deadline); }

  Optimizer optimizer_;
  Options options_;
  std::shared_ptr<memory::Account> account_ = std::make_shared<memory::Account>();
  ManagedTensors parameters_;
  NamedTensors buffers_;
  std::optional<ModelLayout> layout_;
  std::unique_ptr<comm::Timing> transport_;
  std::shared_ptr<Residency> residency_;
  std::unique_ptr<Gradients> gradients_;
  std::optional<GradientViews> views_;
  std::optional<OptimizerStates> states_;
  std::optional<TorchMeter> meter_;
  std::optional<Touch> touch_;
  std::optional<Error> error_;           // the first one; nothing works after it
  std::optional<LossScale> loss_scale_;  // where the model has fp16 parameters
  bool scaled_ = false;                  // the loss whose backward runs or comes
  bool in_backward_ = false;
  int no_sync_scopes_ = 0;
  std::shared_ptr<char> open_ = std::make_shared<char>();  // until it is closed
  bool closed_ = false;
  bool built_ = false;  // the model, by Engine::build
  TrafficReport traffic_at_close_;
  std::int64_t backwards_ = 0;
  std::int64_t steps_ = 0, steps_at_refresh_ = 0;
  int forks_ = forks();
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace shardlight::engine
