// What a model has become beside what its engine has of it: which parameters are new, gone, frozen
// or unfrozen. It only looks; ranks compare what they found before anything is changed.
// One thread.
#pragma once

#include <vector>

#include "shardlight/engine/carry.h"
#include "shardlight/engine/configuration.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/model_layout.h"

namespace shardlight::engine {

// The buffers of a model that have elements. Errors (user): not dense, not on the CPU.
Result<NamedTensors> buffers_with_elements(const NamedTensors& buffers);

// What an engine has of its model.
struct ModelBefore {
  const ManagedTensors* parameters = nullptr;
  const NamedTensors* buffers = nullptr;
  const ModelLayout* layout = nullptr;
  const Keeper* keeper = nullptr;
};

struct ModelChange {
  ManagedTensors parameters;  // as they are now; memory is still where it was
  ModelLayout layout;
  NamedTensors buffers, new_buffers;
  Renumbering renumbering;          // parameters that stay in the model
  bool parameters_changed = false;  // in number, order, names, or what is trained

  // Of those that stay, the ones that were trained and are.
  Renumbering trained_on(const ModelLayout& before) const;
  // Of those, the ones that have masters.
  Renumbering mastered(const ModelLayout& before) const;
};

// Errors (user): those of adopt() and of layouts, a parameter whose memory, shape or dtype was
// replaced, a group that no parameter is in any more.
Result<ModelChange> change_of(const ModelBefore& before, const NamedTensors& parameters,
                              const NamedTensors& buffers, const Options& options);

// The configuration of the model as it is now, for ranks to compare, with what stays and is new.
Configuration configuration_of(const ModelChange& change, const Optimizer& optimizer,
                               const Options& options, const NamedTensors& buffers);

}  // namespace shardlight::engine
