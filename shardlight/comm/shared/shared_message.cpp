// Messages in shared memory: a mailbox for each direction of a pair, which holds one packet.
#include <algorithm>
#include <cstring>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/shared/shared_call.h"

namespace shardlight::comm {
namespace {

// A message of nothing is a packet too, so that both sides know of it.
std::int64_t packets_of(std::size_t bytes) {
  return std::max<std::int64_t>(divide_up(static_cast<std::int64_t>(bytes), kMailboxBytes), 1);
}

// What the packet holds of the message.
template <class Byte>
std::span<Byte> packet_of(std::span<Byte> message, std::int64_t index) {
  const auto begin = static_cast<std::size_t>(index * kMailboxBytes);
  return message.subspan(begin, std::min<std::size_t>(kMailboxBytes, message.size() - begin));
}

}  // namespace

Status SharedTransport::send(std::span<const std::byte> bytes, Rank to, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_peer("to", to, rank_, world_));
  const auto size = static_cast<std::int64_t>(bytes.size());
  Call call(record(rank_), {.kind = OperationKind::kSend, .bytes = Bytes(size)}, 0, deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  Mailbox& box = mailbox(rank_, to);
  for (std::int64_t i = 0; i < packets_of(bytes.size()); ++i) {
    SHARDLIGHT_TRY_STATUS(await(box.taken, box.sent.load(), to, call));
    box.bytes_sent = size;
    const auto packet = packet_of(bytes, i);
    std::copy(packet.begin(), packet.end(), box.bytes.begin());
    box.sent.add(1);
  }
  return {};
}

Status SharedTransport::receive(std::span<std::byte> bytes, Rank from, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(check_peer("from", from, rank_, world_));
  const auto size = static_cast<std::int64_t>(bytes.size());
  Call call(record(rank_), {.kind = OperationKind::kReceive, .bytes = Bytes(size)}, 0, deadline);
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation()));
  Mailbox& box = mailbox(from, rank_);
  for (std::int64_t i = 0; i < packets_of(bytes.size()); ++i) {
    SHARDLIGHT_TRY_STATUS(await(box.sent, box.taken.load() + 1, from, call));
    if (box.bytes_sent != size) {
      box.bytes_wanted = size;
      return tl::unexpected(fail(call, from, FailureReason::kSizes));
    }
    const auto packet = packet_of(bytes, i);
    std::copy_n(box.bytes.begin(), packet.size(), packet.begin());
    box.taken.add(1);
  }
  return {};
}

}  // namespace shardlight::comm
