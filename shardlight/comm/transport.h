// What the engine asks of the world of ranks: gather a unit, reduce a unit's gradients, and a few
// small operations. No torch: spans of bytes and a dtype. A transport belongs to one rank. Calls
// block until they are done or their deadline has passed, and may be made from several threads at
// once where they concern different units (a lane is a thread that makes calls in order); the small
// collective operations by one thread at a time and in the same order on all ranks; messages by one
// thread a peer and direction. Errors are environment errors that name this rank, the unit, the
// operation and the rank waited for; after the first one every further call of any rank fails.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/comm/deadline.h"
#include "shardlight/comm/operation.h"
#include "shardlight/comm/reduce_order.h"
#include "shardlight/comm/sum.h"
#include "shardlight/layout/dtype.h"

namespace shardlight::comm {

using UnitId = std::size_t;

// A unit that all ranks know, the same on all of them.
struct UnitSpec {
  std::string name;  // for messages
  layout::DType dtype = layout::DType::kFloat32;
  std::vector<Count> slices;  // elements that each rank owns, in order; may be 0
  ReduceOrder order = {};
  bool reduces = true;  // false: frozen; no memory for sums is taken
  // Every rank keeps the whole unit, as replicated parameters do, and shard() lies within it.
  bool whole = false;
  // In which the sum, and partial ones, are kept and sent: float32, bfloat16 or float16.
  layout::DType sum_dtype = layout::DType::kFloat32;

  Count elements() const;
  Bytes bytes() const { return layout::bytes_per_element(dtype) * elements().value(); }
  // Of so many elements of the sum.
  Bytes sum_bytes(Count of) const { return layout::bytes_per_element(sum_dtype) * of.value(); }
  // Where rank's slice begins.
  Count slice_begin(Rank rank) const;
};

// A run of a rank's gradient of a unit: `elements` of them, from element `begin` of the unit on.
struct GradientPart {
  Count begin;
  Count elements;
  const void* data = nullptr;
};

// A rank's gradient of a unit, in any dtype that can be reduced. The parts are ascending and do not
// overlap; elements in none of them are left out of the addition, and are 0 in a sum that starts
// with them. No parts: the rank passes its turn. The caller keeps what it points to until the call
// is done.
struct Gradient {
  std::span<const GradientPart> parts;
  layout::DType dtype = layout::DType::kFloat32;
};

enum class Combine : std::uint8_t { kSum, kMax };

// What a rank moved to or from the others' memory; its own slices are not counted.
struct TrafficCount {
  Bytes gathered;  // read from other ranks' slices, of shards and of sums
  Bytes reduced;   // of own gradients, into sums that other ranks own
};

// The life of a unit's shards and of its sum, on all ranks:
//   owners write shard(u), publish(u, v)      → gather(u, v) on any rank sees version v
//   reduce(u, …) once on each rank a round    → reduced(u) on each owner → release(u)
// A rank may take units in any order within a round, but takes each unit's round before any unit's
// next one; and it releases before it begins a fresh round. Else ranks wait for each other in a
// circle, which the deadline ends. A fresh round of a unit waits until every rank has released it.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual Rank rank() const = 0;
  virtual std::int64_t world() const = 0;
  virtual const std::vector<UnitSpec>& units() const = 0;
  // False where every call that waits, but for messages, is a collective: all ranks make the same
  // ones in the same order, on one lane at a time, and any other is an error of all.
  virtual bool one_sided() const { return true; }

  // This rank's slice of the unit, in memory the others can read; writable until published, and
  // again once every rank is known to be done with that version.
  virtual std::span<std::byte> shard(UnitId unit) = 0;
  // Makes what was written to shard(unit) the slice's version `version`; versions start at 1, as
  // version 0 is the zeros of the beginning, and only grow.
  virtual Status publish(UnitId unit, std::int64_t version) = 0;
  // A unit's memory of UnitSpec::whole on this rank (unit.bytes()); empty for other units.
  virtual std::span<std::byte> whole(UnitId unit) = 0;
  // The whole unit, every slice at `version` or later, copied to `target` (unit.bytes()), which may
  // be whole(unit): then this rank's own slice stays as it is.
  virtual Status gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                        Deadline deadline) = 0;
  // The same without a copy: one mapping that all ranks share, valid as long as the transport; the
  // residency "shared unit". Empty where the transport cannot.
  virtual Result<std::span<const std::byte>> view(UnitId unit, std::int64_t version,
                                                  Deadline deadline) = 0;

  // Adds this rank's gradient (all elements of the unit) to the unit's sum in the unit's order.
  // Once a round on every rank; round 0, 1, … counts them, and `fresh` says that the sum starts
  // anew (the first micro-step), the same on all ranks.
  virtual Status reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                        Deadline deadline) = 0;
  // This rank's slice of the sum, once every rank has taken part in `round`; empty if none of them
  // had a gradient since the sum started. It stays until release(); `round` is the last one of this
  // sum, the next is fresh.
  virtual Result<SumSpan> reduced(UnitId unit, std::int64_t round, Deadline deadline) = 0;
  // The whole sum under the same conditions, copied to `target` (unit.elements() of
  // unit.sum_dtype); false, and target untouched, if no rank had a gradient.
  virtual Result<bool> gather_reduced(UnitId unit, std::int64_t round, const SumSpan& target,
                                      Deadline deadline) = 0;
  // This rank has read what it needs of the sum. `round` as in reduced().
  virtual Status release(UnitId unit, std::int64_t round) = 0;

  // Element-wise over all ranks, added by rank; at most kMaxAllReduce values; the same bits on all.
  static constexpr std::size_t kMaxAllReduce = 256;
  virtual Status all_reduce(std::span<double> values, Combine combine, Deadline deadline) = 0;
  virtual Status broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) = 0;
  virtual Status barrier(Deadline deadline) = 0;
  // Point to point, in the order of the sends; both sides give the same size.
  virtual Status send(std::span<const std::byte> bytes, Rank to, Deadline deadline) = 0;
  virtual Status receive(std::span<std::byte> bytes, Rank from, Deadline deadline) = 0;

  virtual TrafficCount traffic() const = 0;
  // A line a rank with what it is doing and for how long: what to print of a stuck job.
  virtual std::string rank_table() const = 0;
};

// Units that a transport can be made for, or a user error by unit and field: names given once, as
// many slices as ranks, none negative, a sum_dtype that can be reduced, group within 1 and world.
Status check_units(const std::vector<UnitSpec>& units, std::int64_t world);

// All that ranks must agree on of their units, as text to hash and compare.
std::string text_of(const std::vector<UnitSpec>& units);

}  // namespace shardlight::comm
