// A rank's shards and whole units, with the versions it has published: a memfd of its own, which
// the other ranks of its host map to read, so that a gather among them is a copy and no message. It
// has an outbox too, of slots in which a rank leaves chunks of its gradients for their owners.
// Ranks are of one host if one kernel runs them in one network namespace. The memory has no name
// in a file system, so nothing is left behind however the ranks end.
//
// Each owns its mapping. Any thread; who may write a shard when is transport.h's rule, and a
// version that is seen makes what was written before it seen too. Internal to comm/mpi.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shardlight/comm/shared/segment.h"
#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// What a rank tells the others of its memory: enough for those of its host to map it.
struct MemoryOffer {
  std::uint64_t host = 0;       // differs between hosts
  std::uint64_t processes = 0;  // the namespace in which it is process number `process`
  std::uint64_t key = 0;        // a random number that stands in the memory
  std::int64_t process = 0;
  std::int64_t descriptor = 0;
};

// What stands where in the memory of one rank; a function of the units and the rank alone.
struct MemoryPlaces {
  struct Place {
    std::int64_t slice = 0, slice_bytes = 0;
    std::int64_t whole = 0, whole_bytes = 0;  // of UnitSpec::whole
  };
  std::vector<Place> units;
  std::int64_t outbox = 0;
  Bytes size;

  MemoryPlaces(const std::vector<UnitSpec>& specs, Rank rank);
};

// Of a chunk each, in a rank's outbox for each owner.
inline constexpr std::int64_t kSlots = 16;

// This rank's.
class OwnMemory {
 public:
  static Result<OwnMemory> create(const std::vector<UnitSpec>& units, Rank rank);

  const MemoryOffer& offer() const { return offer_; }
  std::span<std::byte> shard(UnitId unit) const;
  std::span<std::byte> whole(UnitId unit) const;  // empty where a rank keeps its slice alone
  std::int64_t version(UnitId unit) const;
  // Versions only grow: an older one changes nothing.
  void publish(UnitId unit, std::int64_t version) const;
  std::span<std::byte> slot(Rank owner, std::int64_t slot) const;

 private:
  OwnMemory(MemoryPlaces places, Descriptor file, Segment memory)
      : places_(std::move(places)), file_(std::move(file)), memory_(std::move(memory)) {}

  MemoryPlaces places_;
  MemoryOffer offer_;
  Descriptor file_;  // kept open, as the others open it through this process
  Segment memory_;
};

// Another rank's; it cannot be written here.
class PeerMemory {
 public:
  // Of a rank of this host: an environment error says why it cannot be had.
  static Result<PeerMemory> map(const MemoryOffer& offer, const std::vector<UnitSpec>& units,
                                Rank owner);

  std::span<const std::byte> slice(UnitId unit) const;
  std::int64_t version(UnitId unit) const;
  std::span<const std::byte> slot(Rank reader, std::int64_t slot) const;

 private:
  PeerMemory(MemoryPlaces places, Segment memory)
      : places_(std::move(places)), memory_(std::move(memory)) {}

  MemoryPlaces places_;
  Segment memory_;
};

// By rank; nothing of this one, and of those that are read by messages.
using PeerMemories = std::vector<std::optional<PeerMemory>>;

}  // namespace shardlight::comm
