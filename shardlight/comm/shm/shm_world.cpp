#include "shardlight/comm/shm/shm_world.h"

#include <fmt/format.h>
#include <poll.h>

#include "shardlight/comm/shared/shared_transport.h"
#include "shardlight/comm/shm/rendezvous.h"

namespace shardlight::comm {
namespace {

// A pidfd becomes readable when its process ends, also while nobody has reaped it, and never
// stands for a later process of the same number.
class Processes final : public Peers {
 public:
  explicit Processes(std::vector<Descriptor> processes) : processes_(std::move(processes)) {}

  bool dead(Rank rank) override {
    pollfd polled{.fd = processes_[rank.value()].get(), .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) > 0;
  }

 private:
  std::vector<Descriptor> processes_;
};

Status check(const ShmOptions& options) {
  if (options.job.empty()) return user_error("job", "", "a name that all its ranks give");
  SHARDLIGHT_TRY_STATUS(check_shared_world(options.world));
  if (options.rank < Rank(0) || options.rank >= Rank(options.world)) {
    return user_error("rank", fmt::to_string(options.rank.value()),
                      fmt::format("0 to {}", options.world - 1));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Transport>> connect_shm(const ShmOptions& options,
                                               std::vector<UnitSpec> units, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check(options));
  SHARDLIGHT_TRY_STATUS(check_units(units, options.world));
  const SharedLayout layout(units, options.world);
  const auto meet = options.rank == Rank(0) ? host_meeting : join_meeting;
  SHARDLIGHT_TRY(Meeting meeting, meet(options, layout, deadline));
  SHARDLIGHT_TRY(Segment segment, Segment::of_file(meeting.memory, layout.size()));
  auto transport = std::make_unique<SharedTransport>(
      std::make_shared<Segment>(std::move(segment)), std::move(units), options.rank, options.world,
      std::make_unique<Processes>(std::move(meeting.processes)));
  SHARDLIGHT_TRY_STATUS(transport->meet(deadline));
  return transport;
}

}  // namespace shardlight::comm
