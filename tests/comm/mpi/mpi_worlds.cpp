// The one world of a job under mpirun: each process is a rank and runs the same tests in the same
// order. What the ranks say is given to all of them, so all come to the same verdict.
#include <algorithm>

#include "shardlight/base/environment.h"
#include "shardlight/comm/mpi/mpi_world.h"
#include "shardlight/comm/place.h"
#include "tests/comm/mpi/mpi_worlds.h"

namespace shardlight::comm {
namespace {

std::string run_rank(const std::vector<UnitSpec>& units, const RankBody& body) {
  auto transport = connect_mpi(units, ample(), {.maps_host = maps_host()});
  return transport ? body(**transport) : transport.error().message();
}

Status share(Transport& transport, std::vector<std::string>& said) {
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    const Rank root(static_cast<std::int64_t>(rank));
    std::vector<double> size = {static_cast<double>(said[rank].size())};
    SHARDLIGHT_TRY_STATUS(transport.all_reduce(size, Combine::kMax, ample()));
    std::vector<std::byte> text(static_cast<std::size_t>(size[0]));
    std::transform(said[rank].begin(), said[rank].end(), text.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    SHARDLIGHT_TRY_STATUS(transport.broadcast(text, root, ample()));
    said[rank].resize(text.size());
    std::transform(text.begin(), text.end(), said[rank].begin(),
                   [](std::byte b) { return static_cast<char>(b); });
  }
  return {};
}

}  // namespace

std::vector<WorldCase> worlds(const std::vector<std::int64_t>& sizes) {
  const auto place = place_of(Environment::of_process());
  const std::int64_t ranks = place ? place->world : 0;
  if (std::find(sizes.begin(), sizes.end(), ranks) == sizes.end()) return {};
  return {{.kind = WorldKind::kProcesses, .ranks = ranks}};
}

std::string name_of(const WorldCase& world) { return "mpi" + std::to_string(world.ranks); }

std::ostream& operator<<(std::ostream& out, const WorldCase& world) {
  return out << name_of(world);
}

std::vector<std::string> run_world(const WorldCase& world, const std::vector<UnitSpec>& units,
                                   const RankBody& body) {
  const std::string own = run_rank(units, body);
  auto transport = connect_mpi({}, ample());
  if (!transport) return {own, transport.error().message()};
  std::vector<std::string> said(static_cast<std::size_t>(world.ranks));
  said[static_cast<std::size_t>((*transport)->rank().value())] = own;
  if (const Status shared = share(**transport, said); !shared) said[0] = shared.error().message();
  return said;
}

bool maps_host() { return Environment::of_process().text("SHARDLIGHT_TEST_MPI_BY") != "messages"; }

Deadline ample() { return Deadline(Seconds(120)); }

}  // namespace shardlight::comm
