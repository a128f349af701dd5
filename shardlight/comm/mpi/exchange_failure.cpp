// What ranks tell each other of themselves, deadlines, and who is to blame.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardlight/comm/mpi/exchange.h"

namespace shardlight::comm {
namespace {

constexpr Seconds kCheckEvery{0.002};
// Without a heartbeat for that many of them a rank is blamed itself, whomever it last waited for.
constexpr double kHeartbeatsMissed = 3.5;

std::array<char, 16> shown_lane(const std::string& name) {
  std::array<char, 16> shown{};
  std::copy_n(name.begin(), std::min(name.size(), shown.size()), shown.begin());
  return shown;
}

bool is_of_sum(OperationKind kind) {
  return kind == OperationKind::kReduce || kind == OperationKind::kReduced ||
         kind == OperationKind::kGatherReduced;
}

}  // namespace

void Exchange::tick(Clock::time_point now) {
  if (has_failed_ || now < next_check_) return;
  next_check_ = time_after(now, kCheckEvery);
  if (now >= next_heartbeat_) send_status(now);
  check_silence(now);
  if (!has_failed_) check_left();
  if (!has_failed_) check_deadlines();
}

void Exchange::check_silence(Clock::time_point now) {
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const Seconds silence = now - heard_.last[rank];
    if (Rank(rank) == rank_ || heard_.goodbye[rank] || lost_[rank] || silence < options_.silence) {
      continue;
    }
    lose(Rank(rank), fmt::format("was not heard of for {:.1f} s: it died, is stopped or cut off",
                                 silence.count()));
  }
}

void Exchange::send_status(Clock::time_point now) {
  next_heartbeat_ = time_after(now, options_.heartbeat);
  const std::vector<StatusRecord> records = {own_status()};
  statuses_[rank_.value()] = records[0];
  tell_all(header(MessageKind::kStatus), bytes_of_values(records));
}

StatusRecord Exchange::own_status() const {
  StatusRecord record{.collectives = collectives_};
  for (UnitId unit = 0; unit < units_.size() && record.owner_awaits < 0; ++unit) {
    if (!owned_[unit] || !wanted(unit)) continue;
    if (const auto rank = missing(unit)) {
      record.owner_awaits = static_cast<std::int32_t>(rank->value());
    }
  }
  for (const Call* call : calls_) {
    if (record.calls_shown == record.calls.size()) break;
    const auto awaited = awaited_by(*call);
    record.calls[record.calls_shown++] = {
        .kind = static_cast<std::uint32_t>(call->operation().kind),
        .unit = call->unit(),
        .awaited = awaited ? static_cast<std::int32_t>(awaited->value()) : -1,
        .seconds = static_cast<float>(Seconds(Clock::now() - call->since()).count()),
        .lane = shown_lane(call->lane())};
  }
  return record;
}

std::optional<Rank> Exchange::awaited_by(const Call& call) const {
  if (call.collective != 0) {
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      if (Rank(rank) != rank_ && statuses_[rank].collectives < call.collective) return Rank(rank);
    }
    return std::nullopt;
  }
  if (call.awaited.empty()) return std::nullopt;
  const Rank first = call.awaited.front();
  if (first == rank_ && is_of_sum(call.operation().kind)) {
    if (const auto rank = missing(call.unit() - 1)) return rank;
  }
  return first;
}

std::optional<Rank> Exchange::awaited_by(Rank rank) const {
  const StatusRecord record = rank == rank_ ? own_status() : statuses_[rank.value()];
  for (std::uint32_t i = 0; i < record.calls_shown; ++i) {
    const std::int32_t awaited = record.calls[i].awaited;
    if (awaited >= 0 && Rank(awaited) != rank) return Rank(awaited);
  }
  if (record.owner_awaits >= 0 && Rank(record.owner_awaits) != rank) {
    return Rank(record.owner_awaits);
  }
  return std::nullopt;
}

bool Exchange::silent(Rank rank) const {
  return rank != rank_ &&
         Clock::now() - heard_.last[rank.value()] > kHeartbeatsMissed * options_.heartbeat;
}

Rank Exchange::culprit_behind(Rank awaited) const {
  Rank culprit = awaited;
  for (std::int64_t hops = 0; hops < world_; ++hops) {
    if (silent(culprit)) return culprit;
    const std::optional<Rank> next = awaited_by(culprit);
    if (!next) return culprit;
    culprit = *next;
  }
  return awaited;  // they wait in a circle
}

std::string Exchange::activity(Rank rank) const {
  const StatusRecord record = rank == rank_ ? own_status() : statuses_[rank.value()];
  std::string text;
  for (std::uint32_t i = 0; i < record.calls_shown; ++i) {
    const auto& shown = record.calls[i];
    const std::string unit = shown.unit == 0 ? "" : units_[shown.unit - 1].name;
    const std::string lane(shown.lane.begin(), std::find(shown.lane.begin(), shown.lane.end(), 0));
    text += fmt::format("{}in {}{} for {:.1f} s", text.empty() ? "" : ", ",
                        text_of({.kind = static_cast<OperationKind>(shown.kind), .unit = unit}),
                        lane.empty() ? "" : " on lane " + lane, shown.seconds);
  }
  if (const auto awaited = awaited_by(rank)) {
    text += fmt::format("{}waiting for rank {}", text.empty() ? "" : ", ", awaited->value());
  }
  if (text.empty()) text = "in no call";
  if (!silent(rank)) return text;
  const Seconds since = Clock::now() - heard_.last[rank.value()];
  return fmt::format("not heard of for {:.1f} s, before that {}", since.count(), text);
}

std::string Exchange::rank_table() const {
  std::string table = "rank  state   activity";
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const char* state = left_[rank]          ? "left"
                        : lost_[rank]        ? "lost"
                        : !hellos_[rank]     ? "absent"
                        : silent(Rank(rank)) ? "silent"
                                             : "active";
    table += fmt::format("\n{:>4}  {:<6}  {}", rank, state, activity(Rank(rank)));
  }
  return table;
}

void Exchange::check_deadlines() {
  const auto late =
      std::find_if(calls_.begin(), calls_.end(), [](const Call* call) { return call->late(); });
  if (late == calls_.end()) return;
  fail_deadline(**late, awaited_by(**late).value_or(Rank(0)));
}

void Exchange::fail_deadline(Call& call, Rank awaited) {
  const Rank culprit = culprit_behind(awaited);
  fail(fmt::format("rank {} did not come in time", culprit.value()), text_of(call.operation()),
       &call,
       fmt::format(
           "rank {} did not come within {:g} s; it is {}. All ranks:\n{}\nfrom now on every "
           "call fails",
           culprit.value(), call.deadline().limit().count(), activity(culprit), rank_table()));
}

// Whoever has left does no more than answer for what it has done.
void Exchange::check_left() {
  if (std::none_of(left_.begin(), left_.end(), [](bool left) { return left; })) return;
  for (Call* call : calls_) {
    for (std::int64_t rank = 0; rank < world_ && call->collective != 0; ++rank) {
      if (left_[rank] && statuses_[rank].collectives < call->collective) {
        return fail(fmt::format("rank {} left", rank), text_of(call->operation()), call);
      }
    }
  }
  for (UnitId unit = 0; unit < units_.size(); ++unit) {
    if (!owned_[unit] || !wanted(unit)) continue;
    const auto rank = missing(unit);
    if (rank && left_[rank->value()]) {
      return fail(fmt::format("rank {} left", rank->value()),
                  text_of({.kind = OperationKind::kReduce, .unit = units_[unit].name}));
    }
  }
}

void Exchange::lose(Rank rank, const std::string& what) {
  lost_[rank.value()] = true;
  if (has_failed_ || left_[rank.value()]) return;
  fail(fmt::format("rank {} {}", rank.value(), what), "heartbeat");
}

void Exchange::fail(const std::string& what, const std::string& operation, Call* call,
                    const std::string& detail) {
  if (has_failed_) return;
  {
    const std::scoped_lock lock(failed_mutex_);
    failed_ = {.by = rank_, .what = what, .operation = operation};
    has_failed_ = true;
  }
  std::string texts = what;
  texts += '\0';
  texts += operation;
  tell_all(header(MessageKind::kFailed), std::as_bytes(std::span(texts)));
  end_all(call, detail.empty() ? what : detail);
}

void Exchange::on_failed(const Message& message) {
  if (has_failed_) return;
  const auto* text = reinterpret_cast<const char*>(message.payload.data());
  const std::string texts(text, message.payload.size());
  const std::size_t middle = texts.find('\0');
  {
    const std::scoped_lock lock(failed_mutex_);
    failed_ = {
        .by = message.from, .what = texts.substr(0, middle), .operation = texts.substr(middle + 1)};
    has_failed_ = true;
  }
  end_all(nullptr, "");
}

void Exchange::end_all(Call* finder, const std::string& detail) {
  asks_.clear();
  giving_.clear();
  broadcasts_.clear();
  for (auto& queue : outgoing_) queue.clear();
  asked_.clear();
  own_versions_.clear();
  collective_call_ = nullptr;
  for (auto& owned : owned_) {
    if (!owned) continue;
    owned->waiters.clear();
    for (auto& contribution : owned->current) contribution.reset();
    for (auto& contribution : owned->next) contribution.reset();
  }
  for (Call* call : std::exchange(calls_, {})) {
    call->finish(tl::unexpected(call == finder ? error_of(call->operation(), detail)
                                               : error_of(call->operation())));
  }
}

Error Exchange::error_of(const Operation& operation, const std::string& detail) const {
  return Error::environment(
      {.rank = rank_, .unit = operation.unit, .operation = std::string(name_of(operation.kind))},
      detail, Unusable::kCommunicator);
}

Error Exchange::error_of(const Operation& operation) const {
  const std::scoped_lock lock(failed_mutex_);
  return error_of(operation, fmt::format("{}, as rank {} found in {}", failed_->what,
                                         failed_->by.value(), failed_->operation));
}

Status Exchange::check_alive(const Operation& operation) const {
  if (!has_failed_) return {};
  return tl::unexpected(error_of(operation));
}

}  // namespace shardlight::comm
