#include "shardlight/comm/mpi/mpi_world.h"

#include <fmt/format.h>

#include "shardlight/comm/mpi/mpi_transport.h"

namespace shardlight::comm {

Result<std::unique_ptr<Transport>> connect_mpi(std::vector<UnitSpec> units, Deadline deadline,
                                               MpiOptions options) {
  if (options.heartbeat <= Seconds(0) || options.silence < 4 * options.heartbeat) {
    return user_error(
        "silence", fmt::format("{:g} s", options.silence.count()),
        fmt::format("4 heartbeats of {:g} s or more, each above 0", options.heartbeat.count()));
  }
  CommunicationThread& thread = CommunicationThread::of_process();
  SHARDLIGHT_TRY_STATUS(thread.await_start(deadline));
  SHARDLIGHT_TRY_STATUS(check_units(units, thread.world()));
  SHARDLIGHT_TRY(auto exchange, thread.open(std::move(units), options));
  auto transport = std::make_unique<MpiTransport>(thread, std::move(exchange));
  SHARDLIGHT_TRY_STATUS(transport->connect(deadline, options.maps_host));
  return transport;
}

}  // namespace shardlight::comm
