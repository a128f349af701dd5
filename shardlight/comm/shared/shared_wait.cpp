// Waiting, noticing that it has become pointless, and what is said then.
#include <fmt/format.h>

#include "shardlight/comm/shared/shared_call.h"

namespace shardlight::comm {
namespace {

// " on lane prefetch", or nothing.
std::string lane_text(const CallRecord& call) {
  std::string name;
  for (const std::atomic<char>& letter : call.lane) {
    const char value = letter.load(std::memory_order_relaxed);
    if (value == '\0') break;
    name += value;
  }
  return name.empty() ? name : " on lane " + name;
}

bool has_left(const RankRecord& record) {
  return record.state.load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(RankState::kLeft);
}

}  // namespace

// Finds the first rank that makes a wait pointless.
class SharedTransport::Watch final : public Liveness {
 public:
  Watch(SharedTransport& transport, std::optional<Rank> whom)
      : transport_(transport), whom_(whom) {}

  bool stopped() override {
    if (transport_.control().failure.load(std::memory_order_acquire) != 0) return true;
    for (std::int64_t i = 0; i < transport_.world_; ++i) {
      if (Rank(i) != transport_.rank_ && blocks(Rank(i))) return true;
    }
    return false;
  }
  std::optional<Rank> culprit() const { return culprit_; }
  FailureReason reason() const { return reason_; }

 private:
  bool blocks(Rank rank) {
    if (has_left(transport_.record(rank))) {
      // Leaving is fine unless this very rank still has to do something.
      const bool awaited =
          whom_ ? *whom_ == rank : transport_.missing_at_barrier(rank, transport_.rank_);
      if (!awaited) return false;
      reason_ = FailureReason::kLeft;
    } else if (transport_.peers_->dead(rank)) {
      reason_ = FailureReason::kDied;
    } else {
      return false;
    }
    culprit_ = rank;
    return true;
  }

  SharedTransport& transport_;
  std::optional<Rank> whom_;
  std::optional<Rank> culprit_;
  FailureReason reason_ = FailureReason::kDied;
};

bool SharedTransport::missing_at_barrier(Rank rank, Rank waiting) const {
  return !record(rank).arrivals.reached(record(waiting).arrivals.load());
}

std::optional<Rank> SharedTransport::first_missing_at_barrier(Rank waiting) const {
  for (std::int64_t i = 0; i < world_; ++i) {
    if (missing_at_barrier(Rank(i), waiting)) return Rank(i);
  }
  return std::nullopt;
}

std::optional<Rank> SharedTransport::awaited_by(Rank rank) const {
  for (const CallRecord& call : record(rank).calls) {
    const std::int64_t offset = call.awaited_word.load(std::memory_order_acquire);
    // A rank that could go on, as what it waited for has come, is itself what holds others up.
    if (call.operation.load(std::memory_order_acquire) == 0 || offset == 0 ||
        at<Word>(offset)->reached(call.awaited_value.load(std::memory_order_relaxed))) {
      continue;
    }
    const std::uint32_t whom = call.awaited_rank.load(std::memory_order_relaxed);
    const auto awaited = whom != 0 ? std::optional(Rank(whom - 1)) : first_missing_at_barrier(rank);
    if (awaited) return awaited;
  }
  return std::nullopt;
}

Rank SharedTransport::culprit_behind(Rank awaited) const {
  Rank culprit = awaited;
  for (std::int64_t hops = 0; hops < world_; ++hops) {
    const std::optional<Rank> next = awaited_by(culprit);
    if (!next) return culprit;
    culprit = *next;
  }
  return awaited;  // they wait in a circle
}

Status SharedTransport::await(Word& word, std::uint32_t wanted, std::optional<Rank> whom,
                              Call& call) {
  if (word.reached(wanted)) return {};
  Watch watch(*this, whom);
  call.show_wait(reinterpret_cast<std::byte*>(&word) - segment_->data(), wanted, whom);
  const Waited waited = wait_for(word, wanted, spins_, watch, call.deadline());
  // Whoever was waited for may have done its part, and left or died only then.
  if (waited == Waited::kReached || word.reached(wanted)) {
    call.show_no_wait();
    return {};
  }
  const std::uint64_t failure = control().failure.load(std::memory_order_acquire);
  if (failure != 0) return tl::unexpected(error_of(call.operation(), failure));
  if (waited == Waited::kStopped) {
    return tl::unexpected(fail(call, *watch.culprit(), watch.reason()));
  }
  const std::optional<Rank> awaited = whom ? whom : first_missing_at_barrier(rank_);
  return tl::unexpected(
      fail(call, awaited ? culprit_behind(*awaited) : rank_, FailureReason::kDeadline));
}

Error SharedTransport::fail(const Call& call, Rank culprit, FailureReason reason) {
  const RankFailure failure{.by = rank_,
                            .culprit = culprit,
                            .reason = reason,
                            .operation = call.operation().kind,
                            .unit = call.unit()};
  std::uint64_t first = 0;
  // A rank that failed before us may have left since; then that is not what went wrong.
  if (!control().failure.compare_exchange_strong(first, packed(failure))) {
    return error_of(call.operation(), first);
  }
  std::string detail = cause_text(failure);
  if (reason == FailureReason::kDeadline) {
    // The others' errors, which come after this one, do without the table.
    detail = fmt::format(
        "rank {} did not come within {:g} s; it is {}. All ranks:\n{}\nfrom now on every call "
        "fails",
        culprit.value(), call.deadline().limit().count(), activity(culprit), rank_table());
  }
  return Error::environment({.rank = rank_,
                             .unit = call.operation().unit,
                             .operation = std::string(name_of(call.operation().kind))},
                            detail, Unusable::kCommunicator);
}

std::string SharedTransport::cause_text(const RankFailure& failure) const {
  if (failure.reason != FailureReason::kSizes) return culprit_text(failure);
  const Mailbox& box = mailbox(failure.culprit, failure.by);
  return fmt::format("rank {} sends {} bytes, rank {} receives {}", failure.culprit.value(),
                     box.bytes_sent.load(), failure.by.value(), box.bytes_wanted.load());
}

Error SharedTransport::error_of(const Operation& operation, std::uint64_t word) const {
  const RankFailure failure = unpacked(word);
  const std::string unit = failure.unit == 0 ? "" : units_[failure.unit - 1].name;
  return Error::environment(
      {.rank = rank_, .unit = operation.unit, .operation = std::string(name_of(operation.kind))},
      fmt::format("{}, as rank {} found in {}", cause_text(failure), failure.by.value(),
                  text_of({.kind = failure.operation, .unit = unit})),
      Unusable::kCommunicator);
}

Status SharedTransport::check_alive(const Operation& operation) const {
  const std::uint64_t failure = control().failure.load(std::memory_order_acquire);
  if (failure == 0) return {};
  return tl::unexpected(error_of(operation, failure));
}

std::string SharedTransport::activity(Rank rank) const {
  const std::int64_t now = Deadline::Clock::now().time_since_epoch().count();
  std::string text;
  for (const CallRecord& call : record(rank).calls) {
    const auto kind = static_cast<OperationKind>(call.operation.load(std::memory_order_acquire));
    if (kind == OperationKind::kNone) continue;
    const std::uint32_t unit = call.unit.load(std::memory_order_relaxed);
    const double seconds =
        1e-9 * static_cast<double>(now - call.since_nanoseconds.load(std::memory_order_relaxed));
    text += fmt::format("{}in {}{} for {:.1f} s", text.empty() ? "" : ", ",
                        text_of({.kind = kind, .unit = unit == 0 ? "" : units_[unit - 1].name}),
                        lane_text(call), seconds);
  }
  const std::optional<Rank> awaited = awaited_by(rank);
  if (awaited) text += fmt::format(", waiting for rank {}", awaited->value());
  return text.empty() ? "in no call" : text;
}

std::string SharedTransport::rank_table() const {
  std::string table = "rank  state   activity";
  for (std::int64_t i = 0; i < world_; ++i) {
    const auto state = static_cast<RankState>(record(Rank(i)).state.load());
    const char* shown = state == RankState::kLeft                     ? "left"
                        : state == RankState::kAbsent                 ? "absent"
                        : i != rank_.value() && peers_->dead(Rank(i)) ? "dead"
                                                                      : "active";
    table += fmt::format("\n{:>4}  {:<6}  {}", i, shown, activity(Rank(i)));
  }
  return table;
}

}  // namespace shardlight::comm
