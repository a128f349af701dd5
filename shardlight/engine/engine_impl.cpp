#include "shardlight/engine/engine_impl.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "shardlight/base/random.h"
#include "shardlight/comm/decorators/delaying.h"
#include "shardlight/engine/autograd_hooks.h"
#include "shardlight/engine/configuration.h"
#include "shardlight/engine/forks.h"

namespace shardlight::engine {
namespace {

// Lanes of different ranks make their calls in different orders.
Status check_lanes(const Options& options, const comm::Transport& transport) {
  if (transport.one_sided()) return {};
  for (const auto& [field, bytes] : {std::pair("prefetch_bytes", options.prefetch_bytes),
                                     std::pair("bucket_bytes", options.bucket_bytes)}) {
    if (bytes == Bytes(0)) continue;
    return user_error(field, std::to_string(bytes.value()),
                      "0 on a transport that is not one-sided: its ranks make all calls in one "
                      "order");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::create(const NamedTensors& parameters,
                                                           const NamedTensors& buffers,
                                                           const Optimizer& optimizer,
                                                           const Options& options, Built built) {
  std::unique_ptr<Impl> impl(new Impl(optimizer, options));
  auto started = impl->start(parameters, buffers, std::move(built));
  if (started) return impl;
  // A user's error is all ranks'; another may be this one's alone: it must not wait for the others.
  if (started.error().category() != ErrorCategory::kUser) {
    static_cast<void>(impl->close(/*waits=*/false, started.error()));
  }
  return Failure(std::move(started).error());
}

// Pieces of a model that is being built come over the meeting's transport till its end, then over
// the engine's.
Status Engine::Impl::start(const NamedTensors& parameters, const NamedTensors& buffers,
                           Built built) {
  const at::DisableRecordFunctionGuard unrecorded;
  if (built.building != nullptr) {
    built_ = true;
    account_ = std::move(built.account);
    SHARDLIGHT_TRY_STATUS(built.building->release_all_but(whole_storages(parameters)));
    built.meeting.reset();
  }
  SHARDLIGHT_TRY(auto adopted, adopt(parameters));
  parameters_ = std::move(adopted.parameters);
  if (!options_.ranks) {
    SHARDLIGHT_TRY(options_.ranks, ranks_of_host(options_.deadline));
  }
  SHARDLIGHT_TRY(layout_, lay_out(std::move(adopted.table), options_, options_.ranks->rank,
                                  options_.ranks->world));
  SHARDLIGHT_TRY_STATUS(connect());
  if (built.building != nullptr) built.building->use(*transport_);
  SHARDLIGHT_TRY_STATUS(compare_configuration(
      *transport_, configuration_of(optimizer_, options_, *layout_, buffers), deadline()));
  meter_.emplace(account_);
  account_transport(1);
  SHARDLIGHT_TRY_STATUS(make_parts({.building = built.building}, nullptr));
  touch_.emplace();
  seed_micro_step();
  // All ranks start from rank 0's buffers.
  SHARDLIGHT_TRY(buffers_, buffers_with_elements(buffers));
  return broadcast_all(buffers_);
}

// What works on the layout, over the transport.
Status Engine::Impl::make_parts(FirstValues values, CarriedStates* states) {
  SHARDLIGHT_TRY(residency_, Residency::create(*layout_, options_, parameters_, *transport_,
                                               *account_, *meter_, values));
  SHARDLIGHT_TRY(gradients_,
                 Gradients::create(*layout_, options_, parameters_, *transport_, *account_));
  views_.emplace(*layout_, options_, parameters_, *gradients_, *transport_, *account_);
  if (std::ranges::any_of(parameters_, [](const auto& parameter) {
        return parameter->tensor.scalar_type() == at::kHalf && parameter->tensor.requires_grad();
      })) {
    if (!loss_scale_) loss_scale_.emplace(options_.loss_scaling);
  } else {
    loss_scale_.reset();
  }
  const auto stepped = [this](layout::UnitIndex unit) { return residency_->stepped(unit); };
  SHARDLIGHT_TRY(states_, OptimizerStates::create(*layout_, optimizer_, options_.groups, stepped,
                                                  *account_, *meter_, states));
  for (const auto& parameter : parameters_) {
    if (!parameter->tensor.requires_grad()) continue;
    on_gradient(parameter->tensor, [this, p = parameter.get()] { arrive(*p); });
  }
  return {};
}

Status Engine::Impl::connect() {
  SHARDLIGHT_TRY(auto transport, options_.ranks->connect(unit_specs(*layout_)));
  SHARDLIGHT_TRY_STATUS(check_lanes(options_, *transport));
  if (options_.debug.delay_seed) {
    transport = std::make_unique<comm::Delaying>(std::move(transport), *options_.debug.delay_seed,
                                                 options_.debug.delay_most);
  }
  transport_ = std::make_unique<comm::Timing>(std::move(transport));
  return {};
}

Status Engine::Impl::broadcast(const at::Tensor& buffer) {
  const std::span<std::byte> bytes(static_cast<std::byte*>(buffer.mutable_data_ptr()),
                                   buffer.nbytes());
  return transport_->broadcast(bytes, Rank(0), deadline());
}

Status Engine::Impl::broadcast_all(const NamedTensors& buffers) {
  for (const auto& [name, buffer] : buffers) SHARDLIGHT_TRY_STATUS(broadcast(buffer));
  return {};
}

Engine::Impl::~Impl() {
  // What is thrown through here is this rank's alone: the others are told at once that it has left.
  const bool waits = std::uncaught_exceptions() <= exceptions_at_start_;
  std::optional<Error> not_gathered;
  if (!waits) {
    not_gathered = Error::user("engine", "ended by an exception", "one that all ranks close");
  } else if (built_) {
    not_gathered = Error::user("engine", "ended",
                               "Engine::close() before its end, where each rank has the memory for "
                               "a whole model that Engine::build has made");
  }
  if (auto closed = close(waits, not_gathered); !closed) logger().error(closed.error().message());
}

telemetry::Logger Engine::Impl::logger() const {
  const auto level = telemetry::log_level(Environment::of_process());
  return telemetry::Logger(level.value_or(telemetry::LogLevel::kWarn), layout_->rank);
}

Status Engine::Impl::close(bool waits, const std::optional<Error>& not_gathered) {
  if (closed_ || !residency_) return {};
  const at::DisableRecordFunctionGuard unrecorded;
  for (const auto& parameter : parameters_) on_gradient(parameter->tensor, {});
  if (gradients_) traffic_at_close_ = traffic();
  closed_ = true;
  open_.reset();
  touch_.reset();
  // The model's own memory is not on the engine's account.
  meter_.reset();
  auto whole = [&] {
    const Unmetered unmetered;  // nor on that of another engine of this thread
    return residency_->let_go(not_gathered);
  }();
  // Others may still read this rank's shards.
  if (whole && waits) whole = transport_->barrier(deadline());
  views_.reset();
  gradients_.reset();
  states_.reset();
  account_transport(-1);
  return whole;
}

Status Engine::Impl::check() const {
  if (forked()) {
    return user_error("engine", "of the process that this one was forked from",
                      "an engine that this process made");
  }
  if (closed_) return user_error("engine", "closed", "an engine that is open");
  if (auto error = failure()) return Failure(*std::move(error));
  return {};
}

std::optional<Error> Engine::Impl::failure() const {
  if (error_) return error_;
  if (auto error = residency_->error()) return error;
  return views_ ? views_->error() : std::nullopt;
}

void Engine::Impl::arrive(const ManagedTensor& parameter) {
  if (!in_backward_) {
    in_backward_ = true;
    const auto if_open = [this](void (Impl::*what)()) {
      return [this, what, open = std::weak_ptr<char>(open_)] {
        if (open.lock()) (this->*what)();
      };
    };
    at_end_of_backward(if_open(&Impl::backward_ended), if_open(&Impl::backward_failed));
  }
  if (auto taken = gradients_->arrive(parameter); !taken) {
    error_ = taken.error();
    throw std::move(taken).error();
  }
}

void Engine::Impl::backward_ended() {
  in_backward_ = false;
  ++backwards_;
  const bool scaled = std::exchange(scaled_, false);
  residency_->end_micro_step();
  if (auto ended = end_micro_step(scaled); !ended) {
    error_ = ended.error();
    throw std::move(ended).error();
  }
}

Status Engine::Impl::end_micro_step(bool scaled) {
  if (loss_scale_ && !scaled) {
    return user_error("backward", "of a loss that is not scaled",
                      "Engine::backward(loss) or Engine::scaled(loss).backward(), as the model has "
                      "fp16 parameters");
  }
  SHARDLIGHT_TRY_STATUS(gradients_->end_backward());
  if (gradients_->micro_steps() == options_.accumulation) {
    SHARDLIGHT_TRY_STATUS(gradients_->complete(/*active=*/true));
    report_unused();
    views_->show(gradients_->used(), mean_factor());
  }
  seed_micro_step();
  return {};
}

// Once, and once more after a refresh: a parameter that is forgotten in forward is no error, and
// seldom meant.
void Engine::Impl::report_unused() {
  if (steps_ > steps_at_refresh_ || layout_->rank != Rank(0)) return;
  std::string names;
  for (const auto& parameter : parameters_) {
    const bool trains = layout_->units[parameter->unit].trainable &&
                        parameter->tensor.requires_grad() && parameter->elements() > 0;
    if (!trains || gradients_->used()[parameter->index]) continue;
    names += (names.empty() ? "" : ", ") + parameter->name;
  }
  if (names.empty()) return;
  logger().warn(
      "no gradient reached these parameters in the first step; they stay as they are as "
      "long as that is so: " +
      names);
}

Result<std::shared_ptr<void>> Engine::Impl::no_sync() {
  SHARDLIGHT_TRY_STATUS(check());
  if (options_.reproducible) {
    return user_error("no_sync", "with `reproducible`",
                      "`accumulation`, as the tree of additions is over counted micro-steps");
  }
  gradients_->count_micro_steps(false);
  ++no_sync_scopes_;
  const auto end = [this, open = std::weak_ptr<char>(open_)](void* /*nothing*/) {
    if (open.lock() && --no_sync_scopes_ == 0) gradients_->count_micro_steps(true);
  };
  return std::shared_ptr<void>(nullptr, end);
}

// Passes, until no rank has a batch. A rank that has begun a step before it joins is one that has.
Result<std::int64_t> Engine::Impl::join() {
  SHARDLIGHT_TRY_STATUS(check());
  for (std::int64_t steps = 0;; ++steps) {
    const bool active = gradients_->micro_steps() > 0;
    while (gradients_->micro_steps() < options_.accumulation) {
      SHARDLIGHT_TRY_STATUS(gradients_->end_backward());
    }
    SHARDLIGHT_TRY(const bool any, gradients_->complete(active));
    if (!any) {
      SHARDLIGHT_TRY_STATUS(gradients_->end_step());
      return steps;
    }
    views_->show(gradients_->used(), mean_factor());
    SHARDLIGHT_TRY(const StepReport report, step());
    static_cast<void>(report);
  }
}

// Some of its gradients may be in the sums already.
void Engine::Impl::backward_failed() {
  in_backward_ = false;
  scaled_ = false;
  if (error_) return;
  error_ = Error::user("backward", "failed on the way, after gradients had been added",
                       "a new engine after a backward that failed");
}

at::Tensor Engine::Impl::scaled(const at::Tensor& loss) {
  if (!loss_scale_) return loss;
  return scaled_loss(loss, loss_scale_->value(), [this, open = std::weak_ptr<char>(open_)] {
    if (open.lock()) scaled_ = true;
  });
}

void Engine::Impl::backward(const at::Tensor& loss) {
  if (auto fine = check(); !fine) throw std::move(fine).error();
  const std::int64_t before = backwards_;
  try {
    scaled(loss).backward();
    // A backward that reached none of the parameters is a micro-step all the same.
    if (backwards_ == before) backward_ended();
  } catch (const c10::Error&) {
    // A storage of ours threw: the reason is better than what torch makes of it.
    auto fine = check();
    fail_backward();
    if (!fine) throw std::move(fine).error();
    throw;
  } catch (...) {
    fail_backward();
    throw;
  }
}

// Torch's generator from (seed, step, global micro-batch), so that dropout depends on neither the
// stage nor the number of ranks.
void Engine::Impl::seed_micro_step() const {
  if (!options_.seed) return;
  const std::int64_t micro_batch =
      layout_->rank.value() * options_.accumulation + gradients_->micro_steps();
  const CounterRandom random(*options_.seed, static_cast<std::uint64_t>(steps_));
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(random.bits(static_cast<std::uint64_t>(micro_batch)));
}

Result<ManagedTensor> Engine::Impl::find(const at::Tensor& tensor) const {
  SHARDLIGHT_TRY_STATUS(check());
  const ManagedTensor* parameter = tensor.defined() ? managed_tensor(tensor) : nullptr;
  if (parameter == nullptr || parameter->keeper != residency_.get()) {
    return user_error("tensor", tensor.defined() ? tensor.toString() : "undefined",
                      "a parameter of this engine's model");
  }
  return *parameter;
}

}  // namespace shardlight::engine
