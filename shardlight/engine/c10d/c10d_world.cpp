#include "shardlight/engine/c10d/c10d_world.h"

#include <fmt/format.h>

#include "shardlight/engine/c10d/c10d_transport.h"

namespace shardlight::engine {
namespace {

constexpr Bytes kLeastStaging{std::int64_t{1} << 20};

Status check(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const c10::intrusive_ptr<c10d::Store>& store, const C10dOptions& options) {
  if (!group) return user_error("group", "", "a process group of torch.distributed");
  if (!store) return user_error("store", "", "a store that all ranks of the group reach");
  if (options.staging < kLeastStaging) {
    return user_error("staging", fmt::format("{} bytes", options.staging.value()),
                      fmt::format("{} bytes or more", kLeastStaging.value()));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<comm::Transport>> connect_c10d(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::Store>& store, std::vector<comm::UnitSpec> units,
    comm::Deadline deadline, const C10dOptions& options) {
  SHARDLIGHT_TRY_STATUS(check(group, store, options));
  SHARDLIGHT_TRY_STATUS(comm::check_units(units, group->getSize()));
  SHARDLIGHT_TRY(auto board, Board::open(store, Rank(group->getRank()), group->getSize(), deadline,
                                         options.grace));
  SHARDLIGHT_TRY(ProcessGroup wrapped, ProcessGroup::of(group, *board, options.staging));
  SHARDLIGHT_TRY(auto transport,
                 C10dTransport::make(std::move(board), std::move(wrapped), std::move(units)));
  SHARDLIGHT_TRY_STATUS(transport->meet(deadline));
  return std::unique_ptr<comm::Transport>(std::move(transport));
}

Result<Ranks> ranks_of_process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                     const c10::intrusive_ptr<c10d::Store>& store, Seconds deadline,
                                     const C10dOptions& options) {
  SHARDLIGHT_TRY_STATUS(check(group, store, options));
  return Ranks{.rank = Rank(group->getRank()),
               .world = group->getSize(),
               .connect = [=](const std::vector<comm::UnitSpec>& units) {
                 return connect_c10d(group, store, units, comm::Deadline(deadline), options);
               }};
}

}  // namespace shardlight::engine
