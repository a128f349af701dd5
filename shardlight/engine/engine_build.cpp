#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <utility>

#include "shardlight/engine/building.h"
#include "shardlight/engine/elementwise_probe.h"
#include "shardlight/engine/engine_impl.h"
#include "shardlight/engine/or_throw.h"

namespace shardlight::engine {

Engine::Engine(const Optimizer& optimizer, const Options& options)
    : unbuilt_(std::make_unique<Unbuilt>(optimizer, options)) {
  or_throw(check_options(optimizer, options));
  or_throw(check_elementwise(optimizer));
}

Engine::Impl& Engine::impl() const {
  if (impl_) return *impl_;
  throw Error::user("engine", "without a model", "a model, by Engine::build or at its making");
}

void Engine::build_with(const std::function<Named()>& make) {
  if (!unbuilt_) {
    throw Error::user("build", "of an engine that has a model", "an engine that was made without");
  }
  Options options = unbuilt_->options;
  if (!options.ranks) options.ranks = or_throw(ranks_of_host(options.deadline));
  // A rank that fails on the way leaves, and the others are told.
  auto meeting = or_throw(options.ranks->connect({}));
  auto account = std::make_shared<memory::Account>();
  const auto building =
      or_throw(Building::begin(*meeting, account, options.gathered_bytes, options.deadline));
  Named model;
  try {
    model = make();
  } catch (const c10::Error&) {
    // What torch says of memory that did not come is less than why it did not.
    if (building->error()) throw Error(*building->error());
    throw;
  }
  or_throw(building->end());
  impl_ = or_throw(Impl::create(model.parameters, model.buffers, unbuilt_->optimizer, options,
                                Built{building.get(), std::move(meeting), account}));
  unbuilt_.reset();
}

}  // namespace shardlight::engine
