// What ranks say to each other over MPI: a header of fixed size, as it stands in memory (all ranks
// run on processors of one byte order), and a payload. Large payloads go by themselves, under a tag
// that a header names. Values. Internal to comm/mpi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/layout/dtype.h"

namespace shardlight::comm {

enum class MessageKind : std::uint8_t {
  // Of the process.
  kAlive,
  kGoodbye,  // makes no more calls of MPI but the last one
  // Of one transport.
  kHello,       // number: fingerprint of the units; payload: MemoryOffer
  kStatus,      // payload: StatusRecord
  kLeft,        // number: collective operations taken part in
  kFailed,      // payload: two texts
  kAsk,         // for `size` bytes of `source`, to be sent under `tag`
  kAnswer,      // to the ask of that number; of a gradient in a slot: the ask's own words
  kContribute,  // number: round; payload: parts within the receiver's slice
  kTaken,       // a contribution without bytes, in its round
  kReleased,    // number: rounds released
  kArrive,      // at a barrier or all-reduce; payload: the values
  kResult,      // payload: the combined values
};

// What is asked for. `number` is its version, round or sequence number.
enum class SourceKind : std::uint8_t { kShard, kSum, kBroadcast, kMessage, kGradient };

enum class AnswerKind : std::uint8_t {
  kHere,       // all of it is the payload
  kComing,     // it follows under the tag
  kNotYet,     // said at once to who asked with `urgent`; another answer follows
  kEmpty,      // a sum that nobody gave a gradient to
  kOtherSize,  // a message of `size` bytes
  kNever,      // this rank has left
};

struct MessageHeader {
  MessageKind kind = MessageKind::kAlive;
  SourceKind source = SourceKind::kShard;
  AnswerKind answer = AnswerKind::kHere;
  bool fresh = false;
  bool passes = false;
  bool urgent = false;
  bool maximum = false;
  std::uint8_t dtype = 0;
  std::uint32_t epoch = 0;  // which transport of the process: the first is 1
  std::uint32_t unit = 0;
  std::int32_t tag = 0;
  std::int32_t slot = -1;  // of the asked rank's outbox, for gradients; -1: sent under the tag
  std::int64_t number = 0;
  std::int64_t ask = 0;
  std::int64_t begin = 0;  // elements from the start of the asked rank's slice
  std::int64_t size = 0;   // bytes; of gradients elements
};

struct Message {
  Rank from;
  MessageHeader header;
  std::vector<std::byte> payload;
};

template <class T>
std::span<const std::byte> bytes_of_values(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

template <class T>
std::vector<T> values_of_bytes(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace shardlight::comm
