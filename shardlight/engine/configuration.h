// What must be the same on all ranks of an engine and is chosen by each: options, optimizer, the
// model's parameters and buffers. Ranks compare it as they meet, since a difference is wrong
// numbers or a wait without end later on. No torch but for the tensors' shapes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardlight/comm/transport.h"
#include "shardlight/engine/managed_tensor.h"
#include "shardlight/engine/model_layout.h"

namespace shardlight::engine {

// By field, its value as text; the same fields in the same order on all ranks.
using Configuration = std::vector<std::pair<std::string, std::string>>;
Configuration configuration_of(const Optimizer& optimizer, const Options& options,
                               const ModelLayout& layout, const NamedTensors& buffers);

// A number as text that has all of its bits.
std::string exact_text(double value);

// A user error of the first field that differs from rank to rank, with this rank's value.
Status compare_configuration(comm::Transport& transport, const Configuration& mine,
                             comm::Deadline deadline);

}  // namespace shardlight::engine
