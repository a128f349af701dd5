#include "shardlight/comm/decorators/faulting.h"

#include <fmt/format.h>
#include <unistd.h>

#include "shardlight/base/random.h"

namespace shardlight::comm {

Fault seeded_fault(Fault fault, std::uint64_t seed, std::int64_t world, std::int64_t calls) {
  const auto below = [random = CounterRandom(seed)](std::uint64_t counter, std::int64_t bound) {
    return static_cast<std::int64_t>(random.bits(counter) % static_cast<std::uint64_t>(bound));
  };
  fault.rank = Rank(below(0, world));
  fault.call = below(1, calls);
  return fault;
}

Failure Faulting::failure(const Operation& operation) const {
  return Failure(Error::environment(
      {.rank = rank(), .unit = operation.unit, .operation = std::string(name_of(operation.kind))},
      fmt::format("call {} of this rank fails on purpose", fault_.call), Unusable::kCommunicator));
}

Status Faulting::around(const Operation& operation, const Make& make) {
  if (rank() != fault_.rank) return make();
  if (fault_.kind == FaultKind::kFail && struck()) return failure(operation);
  if (fault_.only.value_or(operation.kind) != operation.kind) return make();
  if (calls_++ != fault_.call) return make();
  switch (fault_.kind) {
    case FaultKind::kLose:
      return {};
    case FaultKind::kFail:
      return failure(operation);
    case FaultKind::kSignal:
      ::kill(::getpid(), fault_.signal);
      break;
  }
  return make();
}

}  // namespace shardlight::comm
