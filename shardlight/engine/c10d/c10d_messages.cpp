// Messages: a short one lies in the store until it is fetched; of a long one the store tells the
// size, and it goes by the group when both sides agree and are there.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "shardlight/comm/call_checks.h"
#include "shardlight/engine/c10d/c10d_transport.h"

namespace shardlight::engine {

using comm::Deadline;
using comm::OperationKind;

namespace {

constexpr std::size_t kInStore = 65'536;
constexpr Seconds kLook{0.1};

std::string message_name(Rank from, Rank to, std::int64_t number) {
  return fmt::format("message/{}/{}/{}", from.value(), to.value(), number);
}

}  // namespace

Result<std::string> C10dTransport::await_word(const comm::Operation& operation,
                                              const RankCall& call, const std::string& name) {
  for (;;) {
    // Who is gone by now has put before what it wanted to.
    const auto gone = board_->gone(call);
    if (auto word = board_->take(name, std::min(kLook, call.deadline.left()), call)) {
      board_->waits_no_more(call);
      return *std::move(word);
    }
    // A collective call of another thread may have failed without a word on the board.
    SHARDLIGHT_TRY_STATUS(check_alive(operation));
    if (!board_->store_error().empty()) {
      return fail(operation, board_->blame(call, "the message did not come"));
    }
    if (const auto cause = board_->failure(call)) return fail(operation, *cause);
    if (gone) {
      return fail(operation, board_->first({.by = rank(), .call = call.text, .what = *gone}));
    }
    board_->waits(call);
    if (call.deadline.passed()) return fail(operation, board_->blame(call, ""));
  }
}

Status C10dTransport::put_word(const comm::Operation& operation, const RankCall& call,
                               const std::string& name, const std::string& word) {
  // A store takes a word without an answer; the question after it finds out whether it lives. And
  // who only ever sends waits for nobody, so would not hear that the others are over.
  const auto cause = board_->put(name, word, call) ? board_->failure(call) : std::nullopt;
  if (cause) return fail(operation, *cause);
  if (board_->store_error().empty()) return {};
  return fail(operation, board_->blame(call, "the message was not taken"));
}

Status C10dTransport::send(std::span<const std::byte> bytes, Rank to, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_peer("to", to, rank(), world()));
  const comm::Operation operation{.kind = OperationKind::kSend,
                                  .bytes = Bytes(static_cast<std::int64_t>(bytes.size()))};
  SHARDLIGHT_TRY_STATUS(check_alive(operation));
  const auto index = static_cast<std::size_t>(to.value());
  const std::string name = message_name(rank(), to, sent_[index]++);
  std::string word = fmt::format("{}\n", bytes.size());
  const RankCall call{.text = comm::text_of(operation), .deadline = deadline, .peer = to};
  if (bytes.size() <= kInStore) {
    word.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    SHARDLIGHT_TRY_STATUS(put_word(operation, call, name, word));
    return {};
  }
  SHARDLIGHT_TRY_STATUS(put_word(operation, call, name, word));
  SHARDLIGHT_TRY_STATUS(await_word(operation, call, name + "/wanted"));
  return settled(operation, group_.send(bytes, to, call));
}

Status C10dTransport::receive(std::span<std::byte> bytes, Rank from, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_peer("from", from, rank(), world()));
  const comm::Operation operation{.kind = OperationKind::kReceive,
                                  .bytes = Bytes(static_cast<std::int64_t>(bytes.size()))};
  SHARDLIGHT_TRY_STATUS(check_alive(operation));
  const RankCall call{.text = comm::text_of(operation), .deadline = deadline, .peer = from};
  const auto index = static_cast<std::size_t>(from.value());
  const std::string name = message_name(from, rank(), received_[index]++);
  SHARDLIGHT_TRY(const std::string word, await_word(operation, call, name));
  const std::string size = word.substr(0, word.find('\n'));
  if (size != fmt::to_string(bytes.size())) {
    return fail(
        operation,
        board_->first({.by = rank(),
                       .call = call.text,
                       .what = fmt::format("rank {} sends {} bytes, rank {} receives {}",
                                           from.value(), size, rank().value(), bytes.size())}));
  }
  if (bytes.size() <= kInStore) {
    std::memcpy(bytes.data(), word.data() + size.size() + 1, bytes.size());
    return {};
  }
  SHARDLIGHT_TRY_STATUS(put_word(operation, call, name + "/wanted", size));
  return settled(operation, group_.receive(bytes, from, call));
}

}  // namespace shardlight::engine
