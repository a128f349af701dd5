#include "shardlight/comm/mpi/rank_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/mpi/chunk_pool.h"
#include "shardlight/comm/text_hash.h"

namespace shardlight::comm {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kVersions = 64;  // where they begin, after the key

using Version = std::atomic<std::int64_t>;
static_assert(Version::is_always_lock_free && sizeof(Version) == sizeof(std::int64_t));

std::span<std::byte> slot_in(const Segment& memory, std::int64_t outbox, Rank owner,
                             std::int64_t slot) {
  return {memory.data() + outbox + (owner.value() * kSlots + slot) * kChunkBytes,
          static_cast<std::size_t>(kChunkBytes)};
}

Version& version_in(const Segment& memory, UnitId unit) {
  return reinterpret_cast<Version*>(memory.data() + kVersions)[unit];
}

Failure failure(const std::string& detail) {
  return Failure(Error::environment({.operation = "connect"}, detail, Unusable::kOperation));
}

Failure system_failure(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

Result<std::uint64_t> namespace_number(const char* path) {
  struct stat found {};
  if (::stat(path, &found) != 0) return system_failure(path);
  return static_cast<std::uint64_t>(found.st_ino);
}

// The kernel's run, which has a random name, and the network namespace.
Result<std::uint64_t> this_host() {
  constexpr const char* kBoot = "/proc/sys/kernel/random/boot_id";
  const Descriptor file(::open(kBoot, O_RDONLY | O_CLOEXEC));
  std::array<char, 64> name{};
  const ssize_t size = file ? ::read(file.get(), name.data(), name.size()) : -1;
  if (size <= 0) return system_failure(kBoot);
  SHARDLIGHT_TRY(const std::uint64_t network, namespace_number("/proc/self/ns/net"));
  return hash_of_text(std::to_string(network),
                      hash_of_text({name.data(), static_cast<std::size_t>(size)}));
}

}  // namespace

MemoryPlaces::MemoryPlaces(const std::vector<UnitSpec>& specs, Rank rank) {
  std::int64_t end = kVersions + static_cast<std::int64_t>(sizeof(Version) * specs.size());
  for (const UnitSpec& spec : specs) {
    const std::int64_t each = layout::bytes_per_element(spec.dtype).value();
    Place place{.slice_bytes = spec.slices[rank.value()].value() * each};
    place.slice = place.whole = round_up(end, kPage);
    if (spec.whole) {
      place.whole_bytes = spec.bytes().value();
      place.slice += spec.slice_begin(rank).value() * each;
    }
    end = place.whole + (spec.whole ? place.whole_bytes : place.slice_bytes);
    units.push_back(place);
  }
  outbox = end = round_up(end, kPage);
  for (const UnitSpec& spec : specs) {
    if (!spec.reduces) continue;
    end = outbox + static_cast<std::int64_t>(spec.slices.size()) * kSlots * kChunkBytes;
  }
  size = Bytes(round_up(end, kPage));
}

Result<OwnMemory> OwnMemory::create(const std::vector<UnitSpec>& units, Rank rank) {
  MemoryPlaces places(units, rank);
  SHARDLIGHT_TRY(Descriptor file, Segment::create_file(places.size));
  SHARDLIGHT_TRY(Segment memory, Segment::of_file(file, places.size));
  memory.populate(Bytes(0), Bytes(places.outbox));
  OwnMemory own(std::move(places), std::move(file), std::move(memory));
  SHARDLIGHT_TRY(own.offer_.host, this_host());
  SHARDLIGHT_TRY(own.offer_.processes, namespace_number("/proc/self/ns/pid"));
  own.offer_.process = ::getpid();
  own.offer_.descriptor = own.file_.get();
  if (::getrandom(&own.offer_.key, sizeof own.offer_.key, 0) != sizeof own.offer_.key) {
    return system_failure("getrandom");
  }
  std::memcpy(own.memory_.data(), &own.offer_.key, sizeof own.offer_.key);
  return own;
}

std::span<std::byte> OwnMemory::shard(UnitId unit) const {
  const MemoryPlaces::Place& place = places_.units[unit];
  return {memory_.data() + place.slice, static_cast<std::size_t>(place.slice_bytes)};
}

std::span<std::byte> OwnMemory::whole(UnitId unit) const {
  const MemoryPlaces::Place& place = places_.units[unit];
  return {memory_.data() + place.whole, static_cast<std::size_t>(place.whole_bytes)};
}

std::int64_t OwnMemory::version(UnitId unit) const {
  return version_in(memory_, unit).load(std::memory_order_acquire);
}

void OwnMemory::publish(UnitId unit, std::int64_t version) const {
  Version& published = version_in(memory_, unit);
  // This rank alone writes it, and one thread at a time.
  if (version <= published.load(std::memory_order_relaxed)) return;
  published.store(version, std::memory_order_release);
}

std::span<std::byte> OwnMemory::slot(Rank owner, std::int64_t slot) const {
  return slot_in(memory_, places_.outbox, owner, slot);
}

Result<PeerMemory> PeerMemory::map(const MemoryOffer& offer, const std::vector<UnitSpec>& units,
                                   Rank owner) {
  SHARDLIGHT_TRY(const std::uint64_t processes, namespace_number("/proc/self/ns/pid"));
  if (processes != offer.processes) return failure("it is in another process namespace");
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor);
  // Should the numbers stand for something else by now, opening that must not wait.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return system_failure(path);
  MemoryPlaces places(units, owner);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return system_failure(path);
  if (!S_ISREG(found.st_mode) || found.st_size != places.size.value()) {
    return failure(path + " is not its memory");
  }
  SHARDLIGHT_TRY(Segment memory, Segment::of_file_to_read(file, places.size));
  if (std::memcmp(memory.data(), &offer.key, sizeof offer.key) != 0) {
    return failure(path + " is not its memory");
  }
  return PeerMemory(std::move(places), std::move(memory));
}

std::span<const std::byte> PeerMemory::slice(UnitId unit) const {
  const MemoryPlaces::Place& place = places_.units[unit];
  return {memory_.data() + place.slice, static_cast<std::size_t>(place.slice_bytes)};
}

std::int64_t PeerMemory::version(UnitId unit) const {
  return version_in(memory_, unit).load(std::memory_order_acquire);
}

std::span<const std::byte> PeerMemory::slot(Rank reader, std::int64_t slot) const {
  return slot_in(memory_, places_.outbox, reader, slot);
}

}  // namespace shardlight::comm
