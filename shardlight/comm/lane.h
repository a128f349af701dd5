// A lane: a named thread that makes calls on a transport in the order in which they were submitted,
// so that whoever submits them can do something else meanwhile. Not a pool: what may overtake what
// goes on another lane. After a call's error the lane makes no further calls; those left get it
// too.
//
// Submitting and waiting: any thread. Owns its thread; the transport, and what calls point to,
// belong to the caller and outlive them. Destroying a lane ends it as soon as the running call has
// ended.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// A call that was submitted. Copies are handles of the same call; outlives its lane.
class Handle {
 public:
  const Operation& operation() const;
  // Whether the call has ended, well or not.
  bool done() const;
  // Until the call has ended: its error, if it has one. If `deadline` passes before: an environment
  // error of the operation, which goes on and may be waited for again.
  Status wait(Deadline deadline) const;

 private:
  friend class Lane;
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Lane {
 public:
  using Work = std::function<Status(Transport&)>;
  static constexpr std::size_t kMostPending = 64;

  // At most `most_pending` calls wait to be made; whoever submits more waits for room.
  Lane(Transport& transport, std::string name, std::size_t most_pending = kMostPending);
  // Calls that have not begun are not made: their handles say so. Takes as long as the running
  // call, so at most until that one's deadline.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane(Lane&&) = delete;
  Lane& operator=(const Lane&) = delete;
  Lane& operator=(Lane&&) = delete;

  const std::string& name() const { return name_; }

  // `work` makes calls that end by `deadline`, which runs from now on, not from the call's turn.
  // Waits for room until then; if there is none, the handle has the error.
  Handle submit(Operation operation, Deadline deadline, Work work);
  Handle publish(UnitId unit, std::int64_t version, Deadline deadline);
  Handle gather(UnitId unit, std::int64_t version, std::span<std::byte> target, Deadline deadline);
  // Keeps a copy of the list of parts, not of what they point to.
  Handle reduce(UnitId unit, std::int64_t round, bool fresh, Gradient gradient, Deadline deadline);

  // Until all calls submitted before have ended; the lane's first error, if it has one.
  Status drain(Deadline deadline);

 private:
  struct Call {
    std::shared_ptr<Handle::State> state;
    Work work;
  };

  Operation described(OperationKind kind, UnitId unit) const;
  Error error_in(const Operation& operation, const std::string& detail) const;
  void run();

  Transport& transport_;
  std::string name_;
  std::size_t most_pending_;
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable has_room_;
  std::deque<Call> pending_;
  std::optional<Error> failed_;  // of the first call that failed
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace shardlight::comm
