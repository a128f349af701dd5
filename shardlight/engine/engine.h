// Shardlight's engine: trains any torch module with ZeRO. It takes over the memory of the module's
// parameters; the module itself, its forward and the loss stay as they are:
//   shardlight::Engine engine(model, shardlight::AdamW{.lr = 3e-4}, {.stage = 3});
//   engine.backward(loss_fn(model->forward(x), y));
//   engine.step();
// Throws shardlight::Error. All ranks make the same calls of it, one thread a rank. Model and
// engine may end in any order.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shardlight/comm/decorators/timing.h"
#include "shardlight/engine/options.h"
#include "shardlight/memory/account.h"

namespace shardlight::engine {

class BuildingScope;

struct StepReport {
  std::int64_t step = 0;     // from 1 on
  double lr_factor = 1;      // of the schedule
  double gradient_norm = 0;  // of the mean gradient, over all parameters, before clipping
  // A gradient was not finite, on some rank: no rank stepped.
  bool skipped = false;
  double loss_scale = 1;  // that the step's losses had
};

struct TagReport {
  memory::Tag tag = memory::Tag::kParameters;
  memory::Level bytes;
  // What the ledger and its residual lines say the tag holds between steps; none where it says
  // nothing. docs/engine.md.
  std::optional<Bytes> ledger;
};

struct MemoryReport {
  std::vector<TagReport> tags;
  memory::Level total;
};

struct UnitPlan {
  std::string name;
  Count elements;
  Bytes bytes;
  bool trainable = false;
};

// What a stage costs this rank: bytes between steps, by the ledger and with padding, and beyond.
struct StagePlan {
  Bytes parameters, gradients, master, optimizer;
  Bytes gathered;  // two units: the one in use and the one that is fetched ahead
  // Of a step: every unit is fetched for one use in forward and one in backward. What backward does
  // not read, as an embedding's weight, is fetched less often, what is used in several places more.
  comm::TrafficCount traffic;
};

struct PlanReport {
  std::vector<UnitPlan> units;
  std::array<StagePlan, layout::kStages> stages;  // each over all ranks
};

struct CallTimes {
  std::int64_t calls = 0;
  Seconds total{0};
  Seconds p50{0}, p99{0};  // to 4.5 %
};

struct TrafficReport {
  comm::TrafficCount moved;    // where bytes move, since the engine began or its last refresh()
  comm::TrafficCount planned;  // by what was done: gathers and reductions of whole units
  std::int64_t gathers = 0;
  std::int64_t gathers_ahead = 0;  // of them, begun before their unit was used
  std::int64_t unforeseen = 0;     // uses that the micro-step before did not have
  Seconds gather_waited{0};        // forward and backward waited for gathers
  Seconds reduce_waited{0};        // backward, for reductions
  CallTimes gather, reduce;        // of the calls, waiting for other ranks included
  Bytes gathered_peak;             // of units gathered at once
};

class Engine {
 public:
  // `model` is a torch::nn::Module holder or shared pointer, or anything whose named_parameters()
  // and named_buffers() are lists of names and tensors.
  template <class Model>
  Engine(const std::shared_ptr<Model>& model, const Optimizer& optimizer,
         const Options& options = {})
      : Engine(named(model->named_parameters()), named(model->named_buffers()), optimizer,
               options) {}

  using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
  Engine(const NamedTensors& parameters, const NamedTensors& buffers, const Optimizer& optimizer,
         const Options& options = {});
  // An engine whose model build() makes; until then all else is a user error of the field "engine".
  // Errors (user): of optimizer and options.
  explicit Engine(const Optimizer& optimizer, const Options& options = {});
  // Of a model that was made in a scope of its own (building_scope.h), which has ended; the ranks
  // are the scope's.
  Engine(BuildingScope scope, const NamedTensors& parameters, const NamedTensors& buffers,
         const Optimizer& optimizer, const Options& options = {});
  //   auto model = engine.build([] { return std::make_shared<Net>(config); });
  // What `make` returns, a module as above, on every rank alike. No rank ever holds the whole
  // model: what torch allocates in `make` is kept as this rank's share while it is not in use, so a
  // model larger than a rank's memory is made by a constructor that knows nothing of this.
  // Once; after one that failed, again on all ranks. All ranks run `make` with the same random
  // state; ranks that are threads share torch's generator, and can make models that draw no random
  // numbers only. At the engine's end the model loses its values, as a rank may not have the memory
  // for them; close() gives them to it. Errors (user, `build`): a second model, a build within a
  // build, a model or random numbers that differ from rank to rank; else the exchange's, no memory,
  // and what `make` throws.
  template <class Make>
  auto build(const Make& make) {
    std::optional<std::invoke_result_t<const Make&>> model;
    build_with([&] {
      model.emplace(make());
      return Named{named((*model)->named_parameters()), named((*model)->named_buffers())};
    });
    return *std::move(model);
  }

  // As close(), but for a model of build(); an error that stands in its way is logged. Where an
  // exception is thrown through it, it waits for nobody: the other ranks get an error that this one
  // has left, and what is not on this rank is lost to its model.
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // loss.backward(), and raises what went wrong on the way. `loss` is a scalar. After the last
  // micro-step each parameter's .grad is the mean over ranks and micro-steps, brought when it is
  // read; what is changed in it, on all ranks alike, is what step() uses.
  void backward(const at::Tensor& loss);
  // The loss times the loss scale, whose backward() is backward(loss); of a model without fp16
  // parameters the loss itself.
  at::Tensor scaled(const at::Tensor& loss);
  // After as many backward passes as `accumulation` says.
  // Errors, which end the engine once the step has begun: of the exchange; parameters or gradients
  // that were changed to other values on some ranks than on others. (user): too few backward
  // passes, a `gathered` scope that is open, a parameter with another storage.
  StepReport step();
  // This rank has no more batches: it takes part in the steps of those that have, with no gradient,
  // until all ranks have joined, and returns how many steps that were. Means still divide by all
  // ranks. Without it a rank that ends early waits in its engine's end for the others, and they for
  // it, until the deadline; then that is an error of all.
  std::int64_t join();

  // Takes the model as it is now, between steps, on all ranks alike: parameters that were frozen or
  // unfrozen by requires_grad_(), new ones, with rank 0's values, and ones that are gone, which get
  // memory of their own with their values. What trained before and does after keeps its values,
  // masters, optimizer states and step counts, bit for bit; what begins to train has fresh ones and
  // an empty .grad; what is frozen has none. Step, schedule, loss scale and seed go on. New buffers
  // get rank 0's values. Groups go by the names of now. It costs about what making the engine does,
  // and for its time this rank's shards twice and one unit of the rest; traffic() counts from here.
  // Errors (user) on all ranks, after which the engine is as it was: gradients that wait for
  // step(), a `gathered` or no_sync() scope that is open, what the constructor refuses, models that
  // differ, a torch_optimizer() where parameters have changed. All others end the engine: where
  // ranks do not meet again or have no memory, parameters are lost that were in its memory.
  template <class Model>
  void refresh(const std::shared_ptr<Model>& model) {
    refresh(named(model->named_parameters()), named(model->named_buffers()));
  }
  void refresh(const NamedTensors& parameters, const NamedTensors& buffers);

  // While it lives, backward passes are no micro-steps: their gradients are added to those of the
  // next one that is, as DistributedDataParallel's no_sync() does. Where gradients are replicated
  // nothing is exchanged for them. Not with `reproducible`.
  [[nodiscard]] std::shared_ptr<void> no_sync();

  // While it lives, the parameters have their whole values and may be used outside of operators.
  class Gathered {
   public:
    Gathered(Gathered&&) noexcept;
    ~Gathered();
    Gathered& operator=(Gathered&&) = delete;
    Gathered(const Gathered&) = delete;
    Gathered& operator=(const Gathered&) = delete;

   private:
    friend class Engine;
    struct Held;
    explicit Gathered(std::unique_ptr<Held> held);
    std::unique_ptr<Held> held_;
  };
  // What operators change is noticed, in a scope or not: it holds on this rank from then on, and
  // for all at the next step(), if all ranks changed it alike; else step() throws. kWrite says that
  // memory is written without operators. Errors: a tensor that is no parameter of this engine; more
  // than `gathered_bytes` hold.
  enum class Access : std::uint8_t { kRead, kWrite };
  Gathered gathered(const std::vector<at::Tensor>& parameters, Access access = Access::kRead);

  // A copy of the mean gradient of a parameter over ranks and micro-steps; between the last
  // backward and step(), on all ranks.
  at::Tensor gradient(const at::Tensor& parameter);
  // A copy of an optimizer state of the whole parameter, as in "exp_avg", or of 16-bit
  // parameters the fp32 "master"; collective. Of a torch_optimizer() there is "master" alone.
  at::Tensor optimizer_state(const at::Tensor& parameter, const std::string& name);

  // The model's state, tensor by tensor: each parameter under each of its names, then rank 0's
  // buffers that have elements. A tensor is a copy that is the caller's, brought when it is asked
  // for, so no more than one unit is held beside it.
  class FullState {
   public:
    // Collective, to the end; nothing after the last one.
    std::optional<std::pair<std::string, at::Tensor>> next();

   private:
    friend class Engine;
    explicit FullState(Engine& engine) : engine_(&engine) {}

    Engine* engine_;
    std::size_t position_ = 0;
    at::Tensor last_;  // by another name it is the same tensor
  };
  // The engine outlives it, and is neither moved nor refreshed meanwhile.
  FullState full_state();

  // The first thing that went wrong, which ended the engine; in forward it comes out of torch as a
  // c10::Error that has only its message.
  std::optional<Error> failure() const;

  MemoryReport memory() const;
  TrafficReport traffic() const;
  // This model on these ranks at each stage. Needs no other rank.
  PlanReport plan() const;
  Rank rank() const;
  std::int64_t world() const;
  // For small collectives of the caller's own, on all ranks alike. Until close() or refresh().
  comm::Transport& transport();

  // Gives the model memory of its own with its values; all ranks together. After it memory() and
  // traffic() say how it ended; all that trains is a user error of the field "engine". Errors: the
  // exchange's; no memory for the model.
  void close();

 private:
  template <class Tensors>
  static NamedTensors named(const Tensors& tensors) {
    NamedTensors list;
    for (const auto& item : tensors) list.emplace_back(item.key(), item.value());
    return list;
  }

  struct Named {
    NamedTensors parameters, buffers;
  };
  void build_with(const std::function<Named()>& make);
  void take(BuildingScope scope, const Named& model);

  class Impl;
  struct Unbuilt;
  // Errors (user): no model yet.
  Impl& impl() const;

  std::unique_ptr<Unbuilt> unbuilt_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardlight::engine

namespace shardlight {

using engine::Adam;
using engine::AdamW;
using engine::Engine;
using engine::Lion;
using engine::Options;
using engine::SGD;

}  // namespace shardlight
