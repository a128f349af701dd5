#include "shardlight/engine/c10d/board.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "shardlight/comm/shm/local_socket.h"

namespace shardlight::engine {
namespace {

// Between two looks for the others' word.
constexpr std::chrono::milliseconds kLook{20};
// A process that dies closes its connections before its end can be seen.
constexpr Seconds kDying{0.2};

std::int64_t number_at_start(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string after(const std::string& text, char separator) {
  const auto at = text.find(separator);
  return at == std::string::npos ? "" : text.substr(at + 1);
}

std::string encoded(const Cause& cause) {
  return fmt::format("{}\n{}\n{}", cause.by.value(), cause.call, cause.what);
}

Cause decoded(const std::string& text) {
  const std::string rest = after(text, '\n');
  return {.by = Rank(number_at_start(text)),
          .call = rest.substr(0, rest.find('\n')),
          .what = after(rest, '\n')};
}

}  // namespace

Result<std::unique_ptr<Board>> Board::open(StorePtr store, const Place& place,
                                           comm::Deadline deadline, Seconds grace,
                                           const std::string& objection) {
  auto words = std::make_unique<Words>(std::move(store), "shardlight/" + place.group + "/");
  SHARDLIGHT_TRY(auto cards, rendezvous(*words, place.rank, place.world, objection, deadline));
  return std::unique_ptr<Board>(new Board(std::move(words), place, std::move(cards), grace));
}

Board::Board(std::unique_ptr<Words> words, const Place& place, std::vector<Card> cards,
             Seconds grace)
    : words_(std::move(words)),
      name_(cards.front().nonce),
      rank_(place.rank),
      world_(place.world),
      grace_(grace),
      cards_(std::move(cards)) {
  const Card& own = cards_[static_cast<std::size_t>(rank_.value())];
  for (const Card& card : cards_) {
    const bool near = card.process != own.process && card.host == own.host;
    processes_.push_back(near ? comm::open_process(card.process) : comm::Descriptor());
  }
}

Board::~Board() {
  if (!left_) leave(0);
}

std::string Board::of_rank(const char* name, std::int64_t rank) const {
  return on_board(fmt::format("{}/{}", name, rank));
}

Seconds Board::limit_of(const comm::Deadline& deadline) const {
  return std::clamp(deadline.left(), std::clamp(grace_, Seconds(1), kAnswer), kAnswer);
}

std::optional<std::string> Board::get(const std::string& name, Seconds limit) {
  return words_->get(on_board(name), limit);
}

bool Board::put(const std::string& name, const std::string& value, const RankCall& call) {
  return words_->set(on_board(name), value, limit_of(call.deadline));
}

std::optional<std::string> Board::take(const std::string& name, Seconds patience,
                                       const RankCall& call) {
  std::optional<std::string> value;
  await(comm::Deadline(patience), [&] {
    value = get(name, limit_of(call.deadline));
    return value.has_value() || !store_error().empty();
  });
  if (value) words_->erase({on_board(name)}, limit_of(call.deadline));
  return value;
}

void Board::waits(const RankCall& call) {
  const std::string text = fmt::format("{} {}", call.number, call.text);
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(waits_in_, text) == text) return;
  }
  words_->set(of_rank("call", rank_.value()), text, limit_of(call.deadline));
}

void Board::waits_no_more(const RankCall& call) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(waits_in_, "").empty()) return;
  }
  words_->set(of_rank("call", rank_.value()), "0 ", limit_of(call.deadline));
}

Board::Said Board::said(std::int64_t rank, Seconds limit) {
  const std::string text = words_->get(of_rank("call", rank), limit).value_or("0 ");
  return {.number = number_at_start(text), .text = after(text, ' ')};
}

bool Board::ended(std::int64_t rank) const {
  const comm::Descriptor& process = processes_[static_cast<std::size_t>(rank)];
  pollfd polled{.fd = process.get(), .events = POLLIN, .revents = 0};
  return process && ::poll(&polled, 1, 0) > 0;
}

std::string Board::died(std::int64_t rank) const {
  return fmt::format("rank {} (process {}) died", rank,
                     cards_[static_cast<std::size_t>(rank)].process);
}

std::optional<std::int64_t> Board::left_after(std::int64_t rank, Seconds limit) {
  const auto left = words_->get(of_rank("left", rank), limit);
  return left ? std::optional(number_at_start(*left)) : std::nullopt;
}

std::optional<Cause> Board::failure(const RankCall& call) {
  const auto failure = get("failure", limit_of(call.deadline));
  return failure ? std::optional(decoded(*failure)) : std::nullopt;
}

// Of a rank that did its part of this call before it left, the part still comes.
std::optional<std::string> Board::gone(const RankCall& call) {
  const bool some_left = get("left", limit_of(call.deadline)).has_value();
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (rank == rank_.value()) continue;
    const bool dead = ended(rank);
    if (!some_left && !dead) continue;
    const auto left = left_after(rank, limit_of(call.deadline));
    if (!store_error().empty()) return std::nullopt;
    const bool awaited = call.peer ? *call.peer == Rank(rank) : left.value_or(0) < call.number;
    if (left && awaited) return fmt::format("rank {} left", rank);
    if (dead && !left) return died(rank);
  }
  return std::nullopt;
}

std::string Board::missing(const RankCall& call) {
  std::string ranks;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const bool came = call.peer ? *call.peer != Rank(rank)
                                : said(rank, limit_of(call.deadline)).number >= call.number;
    if (rank == rank_.value() || came) continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  }
  return ranks;
}

std::string Board::absence(const RankCall& call, const std::string& lost) {
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (!ended(rank)) continue;
    const std::int64_t left = left_after(rank, limit_of(call.deadline)).value_or(0);
    if (left < std::max<std::int64_t>(call.number, 1)) return died(rank);
  }
  const std::string ranks = missing(call);
  const std::string within = fmt::format("within {} s", call.deadline.limit().count());
  if (!store_error().empty()) {
    return fmt::format("{}, and the store of the ranks fails, so its host may be gone: {}",
                       lost.empty() ? "not all ranks came " + within : lost, store_error());
  }
  if (lost.empty()) {
    return ranks.empty() ? "the group did not move the data " + within
                         : fmt::format("rank {} did not come {}", ranks, within);
  }
  return ranks.empty() ? lost : fmt::format("rank {} did not come: {}", ranks, lost);
}

Cause Board::blame(const RankCall& call, const std::string& lost) {
  waits(call);
  const comm::Deadline grace(grace_);
  const comm::Deadline dying(std::min(grace_, kDying));
  const auto some_ended = [&] {
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      if (ended(rank)) return true;
    }
    return false;
  };
  while (!grace.passed() && store_error().empty()) {
    if (auto known = failure(call)) return *std::move(known);
    if (some_ended()) break;
    const bool may_be_dying = !lost.empty() && !dying.passed();
    if (!may_be_dying && (call.peer || missing(call).empty())) break;
    std::this_thread::sleep_for(kLook);
  }
  std::string what = absence(call, first_line(lost));
  if (store_error().empty()) what += ". All ranks:\n" + table();
  return first({.by = rank_, .call = call.text, .what = std::move(what)});
}

Cause Board::first(const Cause& cause) {
  const std::string own = encoded(cause);
  const auto said = words_->replace(on_board("failure"), "", own, std::max(grace_, Seconds(1)));
  return decoded(said.value_or(own));
}

void Board::leave(std::int64_t calls) {
  left_ = true;
  const Seconds limit = std::max(grace_, Seconds(1));
  words_->set(of_rank("left", rank_.value()), fmt::to_string(calls), limit);
  words_->set(on_board("left"), "1", limit);
  part(*words_, rank_);
  if (words_->count(on_board("gone"), limit) != world_) return;
  std::vector<std::string> names = {on_board("left"), on_board("gone"), on_board("failure")};
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    names.push_back(of_rank("left", rank));
    names.push_back(of_rank("call", rank));
  }
  words_->erase(names, limit);
}

std::string Board::table() {
  const Seconds limit = std::max(grace_, Seconds(1));
  std::string table = "rank  state   activity";
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const Said call = said(rank, limit);
    const bool left = left_after(rank, limit).has_value();
    table += fmt::format("\n{:>4}  {:<6}  {}", rank,
                         left          ? "left"
                         : ended(rank) ? "dead"
                                       : "active",
                         call.text.empty() ? "in no call that waits for long"
                         : call.number == 0
                             ? "waits in " + call.text
                             : fmt::format("waits in {}, call {}", call.text, call.number));
  }
  return table;
}

}  // namespace shardlight::engine
