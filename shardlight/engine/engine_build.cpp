#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>
#include <span>
#include <utility>

#include "shardlight/engine/building.h"
#include "shardlight/engine/building_scope.h"
#include "shardlight/engine/elementwise_probe.h"
#include "shardlight/engine/engine_impl.h"
#include "shardlight/engine/or_throw.h"
#include "shardlight/engine/random_state.h"

namespace shardlight::engine {

struct BuildingScope::Parts {
  Ranks ranks;
  // A rank that fails on the way leaves, and the others are told.
  std::unique_ptr<comm::Transport> meeting;
  std::optional<KeptRandomState> own_random;
  std::shared_ptr<memory::Account> account;
  std::unique_ptr<Building> building;
};

BuildingScope::BuildingScope(const Options& options, Random random)
    : parts_(std::make_unique<Parts>()) {
  parts_->ranks = options.ranks ? *options.ranks : or_throw(ranks_of_host(options.deadline));
  parts_->meeting = or_throw(parts_->ranks.connect({}));
  if (random == Random::kOfRank0) {
    parts_->own_random.emplace();
    const at::Tensor state = random_state();
    const std::span<std::byte> bytes(static_cast<std::byte*>(state.mutable_data_ptr()),
                                     state.nbytes());
    or_throw(parts_->meeting->broadcast(bytes, Rank(0), comm::Deadline(options.deadline)));
    set_random_state(state);
  }
  parts_->account = std::make_shared<memory::Account>();
  parts_->building = or_throw(
      Building::begin(*parts_->meeting, parts_->account, options.gathered_bytes, options.deadline));
}
BuildingScope::~BuildingScope() = default;
BuildingScope::BuildingScope(BuildingScope&&) noexcept = default;

void BuildingScope::end() {
  or_throw(parts_->building->end());
  parts_->own_random.reset();
}

std::optional<Error> BuildingScope::error() const { return parts_->building->error(); }

Engine::Engine(const Optimizer& optimizer, const Options& options)
    : unbuilt_(std::make_unique<Unbuilt>(optimizer, options)) {
  or_throw(check_options(optimizer, options));
  or_throw(check_elementwise(unbuilt_->optimizer));
}

Engine::Impl& Engine::impl() const {
  if (impl_) return *impl_;
  throw Error::user("engine", "without a model", "a model, by Engine::build or at its making");
}

void Engine::build_with(const std::function<Named()>& make) {
  if (!unbuilt_) {
    throw Error::user("build", "of an engine that has a model", "an engine that was made without");
  }
  BuildingScope scope(unbuilt_->options);
  Named model;
  try {
    model = make();
  } catch (const c10::Error&) {
    // What torch says of memory that did not come is less than why it did not.
    if (const auto error = scope.error()) throw Error(*error);
    throw;
  }
  scope.end();
  take(std::move(scope), model);
}

Engine::Engine(BuildingScope scope, const NamedTensors& parameters, const NamedTensors& buffers,
               const Optimizer& optimizer, const Options& options)
    : Engine(optimizer, options) {
  take(std::move(scope), {parameters, buffers});
}

void Engine::take(BuildingScope scope, const Named& model) {
  Options options = unbuilt_->options;
  options.ranks = scope.parts_->ranks;
  impl_ = or_throw(Impl::create(model.parameters, model.buffers, unbuilt_->optimizer, options,
                                Built{scope.parts_->building.get(),
                                      std::move(scope.parts_->meeting), scope.parts_->account}));
  unbuilt_.reset();
}

}  // namespace shardlight::engine
