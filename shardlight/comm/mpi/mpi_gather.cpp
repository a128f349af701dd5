// Gathers of the transport over MPI: slices of ranks of this host are copied by the caller from
// their memory, the others asked for.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "shardlight/base/check.h"
#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/copy.h"
#include "shardlight/comm/mpi/mpi_transport.h"
#include "shardlight/telemetry/log.h"

namespace shardlight::comm {
namespace {

// Ranks that publish at the same time are there as soon as that; a question takes as long.
constexpr Seconds kSoon{200e-6};

void warn(Rank rank, const std::string& text) {
  const auto level = telemetry::log_level(Environment::of_process());
  telemetry::Logger(level.value_or(telemetry::LogLevel::kWarn), rank).warn(text);
}

}  // namespace

void MpiTransport::map_host() {
  const std::vector<MemoryOffer>& offers = exchange_->offers();
  std::string missed;
  for (std::int64_t other = 0; other < world(); ++other) {
    const MemoryOffer& offer = offers[static_cast<std::size_t>(other)];
    if (Rank(other) == rank() || offer.host != exchange_->memory().offer().host) continue;
    auto memory = PeerMemory::map(offer, units(), Rank(other));
    if (memory) {
      (*peers_)[static_cast<std::size_t>(other)].emplace(std::move(*memory));
    } else {
      missed +=
          fmt::format("{}rank {} ({})", missed.empty() ? "" : ", ", other, memory.error().detail());
    }
  }
  thread_.run([this] { exchange_->use(peers_); });
  if (missed.empty()) return;
  warn(rank(), "of this host, but read by messages, as their memory cannot be mapped: " + missed);
}

std::int64_t MpiTransport::version(UnitId unit, Rank owner) const {
  if (owner == rank()) return exchange_->memory().version(unit);
  return (*peers_)[static_cast<std::size_t>(owner.value())]->version(unit);
}

MpiTransport::Owners MpiTransport::owners(UnitId unit, std::int64_t version) const {
  Owners owners;
  // Each rank begins with its neighbour, so that they do not all read the same one first.
  for (std::int64_t i = 1; i <= world(); ++i) {
    const Rank owner((rank().value() + i) % world());
    if (units()[unit].slices[owner.value()] == Count(0)) continue;
    if (owner != rank() && !(*peers_)[static_cast<std::size_t>(owner.value())]) {
      owners.by_message.push_back(owner);
    } else if (this->version(unit, owner) < version) {
      owners.awaited.push_back(owner);
    } else {
      owners.there.push_back(owner);
    }
  }
  return owners;
}

bool MpiTransport::come_soon(UnitId unit, std::int64_t version, const std::vector<Rank>& awaited,
                             const Deadline& deadline) const {
  const auto end = time_after(Call::Clock::now(), std::min(kSoon, deadline.left()));
  const auto published = [&](Rank owner) { return this->version(unit, owner) >= version; };
  while (!std::all_of(awaited.begin(), awaited.end(), published)) {
    if (Call::Clock::now() >= end) return false;
    ::sched_yield();
  }
  return true;
}

void MpiTransport::copy_slices(UnitId unit, std::int64_t version, const std::vector<Rank>& owners,
                               std::span<std::byte> target) const {
  const OwnMemory& memory = exchange_->memory();
  const UnitSpec& spec = units()[unit];
  const bool in_place = spec.whole && target.data() == memory.whole(unit).data();
  const std::int64_t each = layout::bytes_per_element(spec.dtype).value();
  for (const Rank owner : owners) {
    // It also makes what the owner wrote before visible here.
    SHARDLIGHT_CHECK_LE(version, this->version(unit, owner));
    const bool own = owner == rank();
    if (own && in_place) continue;
    const std::span<const std::byte> slice =
        own ? memory.shard(unit) : (*peers_)[static_cast<std::size_t>(owner.value())]->slice(unit);
    const auto bytes = static_cast<std::int64_t>(slice.size());
    copy_of_unit(target.data() + spec.slice_begin(owner).value() * each, slice.data(), bytes,
                 spec.bytes().value());
    if (!own) exchange_->count_gathered(bytes);
  }
}

Status MpiTransport::gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                            Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_unit(units(), unit));
  const UnitSpec& spec = units()[unit];
  SHARDLIGHT_TRY_STATUS(check_target(spec, target));
  Call call(operation(OperationKind::kGather, unit, spec.bytes()),
            static_cast<std::uint32_t>(unit + 1), deadline);
  SHARDLIGHT_TRY_STATUS(exchange_->check_alive(call.operation()));
  const Owners owners = this->owners(unit, version);
  const auto start = [&] {
    thread_.post(
        [&] { exchange_->gather(call, unit, version, target, owners.by_message, owners.awaited); });
  };
  const bool asks = !owners.by_message.empty();
  if (asks) start();
  // While the others' bytes are on their way.
  copy_slices(unit, version, owners.there, target);
  if (!asks && come_soon(unit, version, owners.awaited, deadline)) {
    copy_slices(unit, version, owners.awaited, target);
    return {};
  }
  if (!asks) start();
  SHARDLIGHT_TRY_STATUS(call.wait());
  copy_slices(unit, version, owners.awaited, target);
  return {};
}

}  // namespace shardlight::comm
