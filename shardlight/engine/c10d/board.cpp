#include "shardlight/engine/c10d/board.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <thread>

#include "shardlight/comm/shm/local_socket.h"

namespace shardlight::engine {
namespace {

// Between two looks into the store: at first, and later.
constexpr std::chrono::microseconds kFirstLook{250};
constexpr std::chrono::microseconds kLook{20'000};

std::int64_t number_at_start(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string after(const std::string& text, char separator) {
  const auto at = text.find(separator);
  return at == std::string::npos ? "" : text.substr(at + 1);
}

// Processes that can name each other by number: of one boot of one host, in one namespace.
std::string host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> space{};
  const auto length = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  return boot + std::string(space.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
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

// What torch and Gloo say, without where in their sources.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (const auto end = line.find("] "); line.starts_with('[') && end != std::string::npos) {
    line.erase(0, end + 2);
  }
  return line;
}

}  // namespace

Result<std::unique_ptr<Board>> Board::open(StorePtr store, Rank rank, std::int64_t world,
                                           comm::Deadline deadline, Seconds grace) {
  std::unique_ptr<Board> board(new Board(std::move(store), rank, world, "shardlight/", grace));
  // The n-th of this rank meets the n-th of the others.
  const std::string opened = board->of_rank("opened", rank.value());
  std::int64_t number = 0;
  const bool counted =
      board->ask([&](c10d::Store& s) { number = s.add(board->prefix_ + opened, 1); });
  board->prefix_ += fmt::format("{}/", number);
  if (counted) {
    board->set(board->of_rank("who", rank.value()), fmt::format("{} {}", ::getpid(), host()));
  }
  SHARDLIGHT_TRY_STATUS(board->meet(deadline));
  return board;
}

Status Board::meet(comm::Deadline deadline) {
  const auto error = [&](const std::string& detail) -> Status {
    return Failure(Error::environment({.rank = rank_, .unit = "", .operation = "connect"}, detail,
                                      Unusable::kCommunicator));
  };
  std::vector<std::string> keys;
  for (std::int64_t rank = 0; rank < world_; ++rank) keys.push_back(prefix_ + of_rank("who", rank));
  await(keys, deadline.left());
  std::string absent;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    who_.push_back(get(of_rank("who", rank)).value_or(""));
    if (who_.back().empty()) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", rank);
  }
  if (!store_error().empty()) return error("the store of the ranks fails: " + store_error());
  if (!absent.empty()) {
    return error(fmt::format("rank {} did not come within {} s", absent, deadline.limit().count()));
  }
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const bool near =
        rank != rank_.value() &&
        after(who_[rank], ' ') == after(who_[static_cast<std::size_t>(rank_.value())], ' ');
    processes_.push_back(near ? comm::open_process(static_cast<pid_t>(number_at_start(who_[rank])))
                              : comm::Descriptor());
  }
  return {};
}

std::string Board::of_rank(const char* name, std::int64_t rank) const {
  return fmt::format("{}/{}", name, rank);
}

bool Board::ask(const std::function<void(c10d::Store&)>& question) {
  if (!store_error().empty()) return false;
  try {
    question(*store_);
    return true;
  } catch (const std::exception& thrown) {
    const std::scoped_lock lock(mutex_);
    store_error_ = first_line(thrown.what());
    return false;
  }
}

// Not by the store's own wait, which prints a warning whenever it gives up.
void Board::await(const std::vector<std::string>& keys, Seconds patience) {
  const comm::Deadline deadline(patience);
  for (auto pause = kFirstLook;; pause = std::min(2 * pause, kLook)) {
    bool there = false;
    if (!ask([&](c10d::Store& store) { there = store.check(keys); })) return;
    if (there || deadline.left() < pause) return;
    std::this_thread::sleep_for(pause);
  }
}

std::string Board::store_error() const {
  const std::scoped_lock lock(mutex_);
  return store_error_;
}

void Board::set(const std::string& name, const std::string& value) {
  ask([&](c10d::Store& store) { store.set(prefix_ + name, value); });
}

std::optional<std::string> Board::get(const std::string& name) {
  std::optional<std::string> value;
  ask([&](c10d::Store& store) {
    if (store.check({prefix_ + name})) value = store.get_to_str(prefix_ + name);
  });
  return value;
}

void Board::put(const std::string& name, const std::string& value) { set(name, value); }

std::optional<std::string> Board::take(const std::string& name, Seconds patience) {
  await({prefix_ + name}, patience);
  auto value = get(name);
  if (value) ask([&](c10d::Store& store) { store.deleteKey(prefix_ + name); });
  return value;
}

void Board::waits(const RankCall& call) {
  const std::string text = fmt::format("{} {}", call.number, call.text);
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(waits_in_, text) == text) return;
  }
  set(of_rank("call", rank_.value()), text);
}

void Board::waits_no_more() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(waits_in_, "").empty()) return;
  }
  set(of_rank("call", rank_.value()), "0 ");
}

Board::Said Board::said(std::int64_t rank) {
  const std::string text = get(of_rank("call", rank)).value_or("0 ");
  return {.number = number_at_start(text), .text = after(text, ' ')};
}

bool Board::ended(std::int64_t rank) const {
  const comm::Descriptor& process = processes_[static_cast<std::size_t>(rank)];
  pollfd polled{.fd = process.get(), .events = POLLIN, .revents = 0};
  return process && ::poll(&polled, 1, 0) > 0;
}

std::optional<std::int64_t> Board::left_after(std::int64_t rank) {
  const auto left = get(of_rank("left", rank));
  return left ? std::optional(number_at_start(*left)) : std::nullopt;
}

std::optional<Cause> Board::failure() {
  const auto failure = get("failure");
  return failure ? std::optional(decoded(*failure)) : std::nullopt;
}

// Of a rank that did its part of this call before it left, the part still comes.
std::optional<std::string> Board::gone(const RankCall& call) {
  const bool some_left = get("left").has_value();
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (rank == rank_.value()) continue;
    const bool dead = ended(rank);
    if (!some_left && !dead) continue;
    const auto left = left_after(rank);
    if (!store_error().empty()) return std::nullopt;
    const bool awaited = call.peer ? *call.peer == Rank(rank) : left.value_or(0) < call.number;
    if (left && awaited) return fmt::format("rank {} left", rank);
    if (dead && !left) {
      return fmt::format("rank {} (process {}) died", rank, number_at_start(who_[rank]));
    }
  }
  return std::nullopt;
}

std::string Board::missing(const RankCall& call) {
  std::string ranks;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const bool came = call.peer ? *call.peer != Rank(rank) : said(rank).number >= call.number;
    if (rank == rank_.value() || came) continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  }
  return ranks;
}

std::string Board::absence(const RankCall& call, const std::string& lost) {
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (!ended(rank) || left_after(rank).value_or(0) >= std::max<std::int64_t>(call.number, 1)) {
      continue;
    }
    return fmt::format("rank {} (process {}) died", rank, number_at_start(who_[rank]));
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
  const auto some_ended = [&] {
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      if (ended(rank)) return true;
    }
    return false;
  };
  while (!grace.passed() && store_error().empty()) {
    if (auto known = failure()) return *std::move(known);
    if (some_ended() || call.peer || missing(call).empty()) break;
    std::this_thread::sleep_for(kLook);
  }
  std::string what = absence(call, first_line(lost));
  if (store_error().empty()) what += ". All ranks:\n" + table();
  return first({.by = rank_, .call = call.text, .what = std::move(what)});
}

Cause Board::first(const Cause& cause) {
  std::string said = encoded(cause);
  ask([&](c10d::Store& store) { said = store.compareSet(prefix_ + "failure", "", said); });
  return decoded(said);
}

void Board::leave(std::int64_t calls) {
  set(of_rank("left", rank_.value()), fmt::to_string(calls));
  set("left", "1");
}

std::string Board::table() {
  std::string table = "rank  state   activity";
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const Said call = said(rank);
    const bool left = left_after(rank).has_value();
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
