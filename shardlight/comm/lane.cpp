#include "shardlight/comm/lane.h"

#include <fmt/format.h>
#include <pthread.h>

#include "shardlight/comm/gradient.h"

namespace shardlight::comm {
namespace {

// The system shows threads by names of this length.
constexpr std::size_t kThreadName = 15;

auto time_of(const Deadline& deadline) {
  return Deadline::Clock::now() +
         std::chrono::duration_cast<Deadline::Clock::duration>(deadline.left());
}

}  // namespace

struct Handle::State {
  State(Operation what, Rank on) : operation(std::move(what)), rank(on) {}

  void end(Status with) {
    {
      const std::scoped_lock lock(mutex);
      status = std::move(with);
    }
    ended.notify_all();
  }

  const Operation operation;
  const Rank rank;
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<Status> status;  // once it has ended
};

const Operation& Handle::operation() const { return state_->operation; }

bool Handle::done() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->status.has_value();
}

Status Handle::wait(Deadline deadline) const {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait_until(lock, time_of(deadline), [&] { return state_->status.has_value(); });
  if (state_->status) return *state_->status;
  const Operation& operation = state_->operation;
  return Failure(Error::environment({.rank = state_->rank,
                                     .unit = operation.unit,
                                     .operation = std::string(name_of(operation.kind))},
                                    fmt::format("lane {} has not done it within {:g} s",
                                                operation.lane, deadline.limit().count()),
                                    Unusable::kOperation));
}

Lane::Lane(Transport& transport, std::string name, std::size_t most_pending)
    : transport_(transport), name_(std::move(name)), most_pending_(most_pending) {
  thread_ = std::thread([this] { run(); });
}

Lane::~Lane() {
  std::deque<Call> left;
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
    left.swap(pending_);
  }
  has_work_.notify_all();
  has_room_.notify_all();
  for (const Call& call : left) {
    call.state->end(
        Failure(error_in(call.state->operation, "lane " + name_ + " has ended before it")));
  }
  thread_.join();
}

Error Lane::error_in(const Operation& operation, const std::string& detail) const {
  return Error::environment({.rank = transport_.rank(),
                             .unit = operation.unit,
                             .operation = std::string(name_of(operation.kind))},
                            detail, Unusable::kOperation);
}

Handle Lane::submit(Operation operation, Deadline deadline, Work work) {
  operation.lane = name_;
  operation.deadline = deadline;
  const auto state = std::make_shared<Handle::State>(std::move(operation), transport_.rank());
  std::unique_lock lock(mutex_);
  const bool room = has_room_.wait_until(lock, time_of(deadline), [&] {
    return pending_.size() < most_pending_ || failed_ || ending_;
  });
  if (failed_) {
    state->end(Failure(*failed_));
  } else if (!room || ending_) {
    state->end(Failure(
        error_in(state->operation, fmt::format("lane {} has had no room for it within {:g} s",
                                               name_, deadline.limit().count()))));
  } else {
    pending_.push_back({.state = state, .work = std::move(work)});
    has_work_.notify_one();
  }
  return Handle(state);
}

void Lane::run() {
  const OnLane on_lane(name_);
  ::pthread_setname_np(::pthread_self(), name_.substr(0, kThreadName).c_str());
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [&] { return ending_ || !pending_.empty(); });
    if (ending_) return;
    const Call call = std::move(pending_.front());
    pending_.pop_front();
    Status done;
    if (failed_) {
      done = Failure(*failed_);
    } else {
      lock.unlock();
      done = call.work(transport_);
      lock.lock();
      if (!done) failed_ = done.error();
    }
    has_room_.notify_all();
    call.state->end(std::move(done));
  }
}

Operation Lane::described(OperationKind kind, UnitId unit) const {
  const auto& units = transport_.units();
  // A unit that does not exist is refused by the transport.
  if (unit >= units.size()) return {.kind = kind};
  return {.kind = kind, .unit = units[unit].name, .bytes = units[unit].bytes()};
}

Handle Lane::publish(UnitId unit, std::int64_t version, Deadline deadline) {
  return submit(described(OperationKind::kPublish, unit), deadline,
                [=](Transport& transport) { return transport.publish(unit, version); });
}

Handle Lane::gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                    Deadline deadline) {
  return submit(described(OperationKind::kGather, unit), deadline, [=](Transport& transport) {
    return transport.gather(unit, version, target, deadline);
  });
}

Handle Lane::reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient,
                    Deadline deadline) {
  Operation operation = described(OperationKind::kReduce, unit);
  operation.bytes = bytes_of(gradient);
  std::vector<GradientPart> parts(gradient.parts.begin(), gradient.parts.end());
  return submit(operation, deadline,
                [=, parts = std::move(parts), dtype = gradient.dtype](Transport& transport) {
                  return transport.reduce(unit, round, fresh, {.parts = parts, .dtype = dtype},
                                          deadline);
                });
}

Status Lane::drain(Deadline deadline) {
  return submit({}, deadline, [](Transport&) { return Status(); }).wait(deadline);
}

}  // namespace shardlight::comm
