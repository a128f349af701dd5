// How the test programs of c10d meet: each rank is a process in which Python has made a store that
// all of them reach, and makes a new process group of them whenever it is asked to.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardlight/comm/transport.h"

namespace shardlight::engine {

struct Meeting {
  Rank rank;
  std::int64_t world = 1;
  c10::intrusive_ptr<c10d::Store> store;
  // On all ranks equally often: the last one may have broken.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> new_group;
};

// Of this process, for tests that have no other way to it.
Meeting& meeting();

// A transport over a new group.
Result<std::unique_ptr<comm::Transport>> connect(const std::vector<comm::UnitSpec>& units,
                                                 comm::Deadline deadline);

// What goes wrong, as every rank is told: each in its own words; `name` is one of faults.cpp's.
std::string fault(const std::string& name);

// A test model trained over c10d at a stage, and the same over threads: "" or what differs.
std::string train_as_threads_do(const std::string& model, int stage);
// A chain that changes between steps, and the same by hand: "" or what differs.
std::string refresh_as_by_hand(int stage);

}  // namespace shardlight::engine
