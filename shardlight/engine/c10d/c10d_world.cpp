#include "shardlight/engine/c10d/c10d_world.h"

#include <fmt/format.h>

#include "shardlight/engine/c10d/c10d_transport.h"

namespace shardlight::engine {
namespace {

constexpr Bytes kLeastStaging{std::int64_t{1} << 20};

Status check_given(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                   const c10::intrusive_ptr<c10d::Store>& store) {
  if (!group) return user_error("group", "", "a process group of torch.distributed");
  if (!store) return user_error("store", "", "a store that all ranks of the group reach");
  return {};
}

Status check_fit(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 const std::vector<comm::UnitSpec>& units, const C10dOptions& options) {
  if (options.staging < kLeastStaging) {
    return user_error("staging", fmt::format("{} bytes", options.staging.value()),
                      fmt::format("{} bytes or more", kLeastStaging.value()));
  }
  SHARDLIGHT_TRY_STATUS(ProcessGroup::check(group));
  return comm::check_units(units, group->getSize());
}

// Torch gives each group of a job another name; a group without a backend has none.
std::string name_of(const c10d::ProcessGroup& group) {
  try {
    return group.getGroupName();
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

Result<std::unique_ptr<comm::Transport>> connect_c10d(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::Store>& store, std::vector<comm::UnitSpec> units,
    comm::Deadline deadline, const C10dOptions& options) {
  SHARDLIGHT_TRY_STATUS(check_given(group, store));
  // The others hear of what this rank alone finds wrong, instead of waiting for it.
  const Status possible = check_fit(group, units, options);
  const std::string objection = possible ? "" : possible.error().message();
  const Board::Place place{
      .group = name_of(*group), .rank = Rank(group->getRank()), .world = group->getSize()};
  auto board = Board::open(store, place, deadline, options.grace, objection);
  SHARDLIGHT_TRY_STATUS(possible);
  if (!board) return failure_of(std::move(board));
  ProcessGroup wrapped(group, **board, options.staging);
  SHARDLIGHT_TRY(auto transport,
                 C10dTransport::make(*std::move(board), std::move(wrapped), std::move(units)));
  SHARDLIGHT_TRY_STATUS(transport->meet(deadline));
  return std::unique_ptr<comm::Transport>(std::move(transport));
}

Result<Ranks> ranks_of_process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                     const c10::intrusive_ptr<c10d::Store>& store, Seconds deadline,
                                     const C10dOptions& options) {
  SHARDLIGHT_TRY_STATUS(check_given(group, store));
  SHARDLIGHT_TRY_STATUS(check_fit(group, {}, options));
  return Ranks{.rank = Rank(group->getRank()),
               .world = group->getSize(),
               .connect = [=](const std::vector<comm::UnitSpec>& units) {
                 return connect_c10d(group, store, units, comm::Deadline(deadline), options);
               }};
}

}  // namespace shardlight::engine
