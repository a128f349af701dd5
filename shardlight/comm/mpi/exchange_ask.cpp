// Asking other ranks for bytes, and answering them: shards, sums, broadcasts and messages.
#include <algorithm>
#include <utility>

#include "shardlight/comm/copy.h"
#include "shardlight/comm/mpi/exchange.h"

namespace shardlight::comm {
namespace {

// What goes within the answer itself.
constexpr std::int64_t kBytesWithin = 2048;
// A message up to this size is on its way when send returns, if none is before it.
constexpr std::int64_t kCopiedBytes = std::int64_t{64} << 10;

}  // namespace

// From a rank's memory, chunk by chunk, through chunks of this rank's own.
struct Exchange::Pull {
  Rank from;
  int tag = 0;
  std::int64_t ask = 0;
  std::int64_t size = 0;
  std::int64_t begun = 0;
  std::int64_t taken = 0;
  int under_way = 0;
};

struct Exchange::Push {
  Rank to;
  int tag = 0;
  std::int64_t size = 0;
  std::int64_t begun = 0;
  int under_way = 0;
  const std::byte* stable = nullptr;  // or
  std::shared_ptr<Lent> lent;         // copied chunk by chunk
  std::shared_ptr<void> keep;
  std::function<void()> taken;  // all of it is copied or sent
};

void Exchange::ask(Call& call, Rank owner, SourceKind source, UnitId unit, std::int64_t number,
                   std::byte* target, std::int64_t size) {
  MessageHeader asking = header(MessageKind::kAsk);
  asking.source = source;
  asking.unit = static_cast<std::uint32_t>(unit);
  asking.number = number;
  asking.ask = ++last_ask_;
  asking.size = size;
  asking.tag = link_.new_tag();
  asking.urgent = call.urgent();
  call.awaited.push_back(owner);
  asks_[asking.ask] = {
      .call = &call, .owner = owner, .target = target, .size = size, .source = source};
  link_.send(owner, asking);
}

void Exchange::gather(Call& call, UnitId unit, std::int64_t version, std::span<std::byte> target,
                      const std::vector<Rank>& by_message, const std::vector<Rank>& by_memory) {
  if (!begin(call)) return;
  const UnitSpec& spec = units_[unit];
  const std::int64_t each = layout::bytes_per_element(spec.dtype).value();
  for (const Rank owner : by_message) {
    std::byte* slice = target.data() + spec.slice_begin(owner).value() * each;
    ask(call, owner, SourceKind::kShard, unit, version, slice,
        spec.slices[owner.value()].value() * each);
  }
  for (const Rank owner : by_memory) {
    if (owner != rank_) {
      // None of its bytes: answered when it is published.
      ask(call, owner, SourceKind::kShard, unit, version, target.data(), 0);
    } else if (memory_.version(unit) < version) {
      call.awaited.push_back(rank_);
      own_versions_[static_cast<std::uint32_t>(unit)].emplace_back(&call, version);
      call.must_wait = true;
    }
  }
  settle(call);
}

void Exchange::published(UnitId unit) {
  const std::int64_t version = memory_.version(unit);
  const auto waiting = own_versions_.find(static_cast<std::uint32_t>(unit));
  if (waiting != own_versions_.end()) {
    const auto calls = std::exchange(waiting->second, {});
    for (const auto& [call, wanted] : calls) {
      if (wanted > version) {
        waiting->second.emplace_back(call, wanted);
        continue;
      }
      call->done_with(rank_);
      settle(*call);
    }
  }
  answer_waiting(SourceKind::kShard, static_cast<std::uint32_t>(unit));
}

void Exchange::gather_sum(Call& call, UnitId unit, std::int64_t round, const SumSpan& target) {
  if (!begin(call)) return;
  const UnitSpec& spec = units_[unit];
  for (const Rank owner : owners(unit)) {
    if (owner == rank_) continue;
    const SumSpan slice = target.part(spec.slice_begin(owner), spec.slices[owner.value()]);
    ask(call, owner, SourceKind::kSum, unit, round, slice.data(),
        static_cast<std::int64_t>(slice.bytes().size()));
  }
  if (owned_[unit]) {
    call.awaited.push_back(rank_);
    owned_[unit]->waiters.emplace_back(&call, round);
    tell_waiters(unit);
    return;
  }
  settle(call);
}

void Exchange::on_ask(Rank from, const MessageHeader& asking) {
  if (asking.source == SourceKind::kGradient) return on_ask_gradient(from, asking);
  const Asked asked{.from = from, .header = asking};
  if (answer(asked)) return;
  const bool sum = asking.source == SourceKind::kSum;
  if (left_[rank_.value()] && !sum) {
    MessageHeader never = header(MessageKind::kAnswer);
    never.ask = asking.ask;
    never.answer = AnswerKind::kNever;
    return link_.send(from, never);
  }
  if (asking.urgent) {
    MessageHeader not_yet = header(MessageKind::kAnswer);
    not_yet.ask = asking.ask;
    not_yet.answer = AnswerKind::kNotYet;
    link_.send(from, not_yet);
  }
  asked_[{asking.source, asking.unit}].push_back(asked);
}

void Exchange::answer_waiting(SourceKind source, std::uint32_t unit) {
  const auto found = asked_.find({source, unit});
  if (found == asked_.end()) return;
  std::vector<Asked> still;
  for (const Asked& asked : std::exchange(found->second, {})) {
    if (!answer(asked)) still.push_back(asked);
  }
  asked_[{source, unit}] = std::move(still);
}

void Exchange::never_answer() {
  for (auto& [key, waiting] : asked_) {
    if (key.first == SourceKind::kSum) continue;
    for (const Asked& asked : std::exchange(waiting, {})) on_ask(asked.from, asked.header);
  }
}

bool Exchange::answer(const Asked& asked) {
  const MessageHeader& asking = asked.header;
  switch (asking.source) {
    case SourceKind::kShard: {
      if (memory_.version(asking.unit) < asking.number) return false;
      give(asked, memory_.shard(asking.unit).data(), nullptr, nullptr, asking.size, nullptr);
      return true;
    }
    case SourceKind::kSum: {
      Owned& owned = *owned_[asking.unit];
      if (owned.round <= asking.number) return false;
      if (owned.sum.filled()) {
        give(asked, owned.sum.sum().data(), nullptr, nullptr, asking.size, nullptr);
        return true;
      }
      MessageHeader empty = header(MessageKind::kAnswer);
      empty.ask = asking.ask;
      empty.answer = AnswerKind::kEmpty;
      link_.send(asked.from, empty);
      return true;
    }
    case SourceKind::kBroadcast: {
      const auto found = broadcasts_.find(asking.number);
      if (found == broadcasts_.end()) return false;
      Call* call = found->second.call;
      give(asked, nullptr, found->second.lent, nullptr, found->second.size,
           [this, call, lent = found->second.lent, from = asked.from] {
             if (lent->data == nullptr) return;  // the call has ended
             call->done_with(from);
             settle(*call);
           });
      return true;
    }
    case SourceKind::kMessage:
      return answer_message(asked);
    case SourceKind::kGradient:
      break;
  }
  return true;
}

bool Exchange::answer_message(const Asked& asked) {
  auto& queue = outgoing_[asked.from.value()];
  if (queue.empty() || queue.front().number != asked.header.number) return false;
  Outgoing message = std::move(queue.front());
  if (message.size != asked.header.size) {
    // The receiver says it to all; the sender's call ends then.
    queue.front() = std::move(message);
    MessageHeader other = header(MessageKind::kAnswer);
    other.ask = asked.header.ask;
    other.answer = AnswerKind::kOtherSize;
    other.size = queue.front().size;
    link_.send(asked.from, other);
    return true;
  }
  queue.pop_front();
  if (message.copy) {
    give(asked, message.copy->data(), nullptr, message.copy, message.size, nullptr);
    return true;
  }
  give(asked, nullptr, message.lent, nullptr, message.size,
       [this, call = message.call, lent = message.lent, to = asked.from] {
         if (lent->data == nullptr) return;
         call->done_with(to);
         settle(*call);
       });
  return true;
}

void Exchange::give(const Asked& asked, const std::byte* stable, std::shared_ptr<Lent> lent,
                    std::shared_ptr<void> keep, std::int64_t size, std::function<void()> taken) {
  MessageHeader answering = header(MessageKind::kAnswer);
  answering.ask = asked.header.ask;
  answering.size = size;
  if (size <= kBytesWithin) {
    const std::byte* data = lent ? lent->data : stable;
    answering.answer = AnswerKind::kHere;
    link_.send(asked.from, answering, {data, static_cast<std::size_t>(size)});
    if (taken) taken();
    return;
  }
  answering.answer = AnswerKind::kComing;
  answering.tag = asked.header.tag;
  link_.send(asked.from, answering);
  push_more(std::make_shared<Push>(Push{.to = asked.from,
                                        .tag = asked.header.tag,
                                        .size = size,
                                        .stable = stable,
                                        .lent = std::move(lent),
                                        .keep = std::move(keep),
                                        .taken = std::move(taken)}));
}

void Exchange::push_more(const std::shared_ptr<Push>& push) {
  while (push->under_way < kChunksAtOnce && push->begun < push->size) {
    const std::int64_t size = std::min(kChunkBytes, push->size - push->begun);
    std::span<const std::byte> bytes;
    Chunk copy;
    if (push->stable != nullptr) {
      bytes = {push->stable + push->begun, static_cast<std::size_t>(size)};
    } else if (push->lent->data != nullptr) {
      copy = pool_.take();
      std::copy_n(push->lent->data + push->begun, size, copy->begin());
      bytes = std::span<const std::byte>(*copy).first(static_cast<std::size_t>(size));
    }  // else the call has ended, and chunks of nothing say so
    push->begun += size;
    ++push->under_way;
    link_.send_bytes(push->to, push->tag, bytes,
                     [self = shared_from_this(), push, copy](std::size_t) {
                       --push->under_way;
                       self->push_more(push);
                     });
  }
  if (push->begun == push->size && push->taken) std::exchange(push->taken, nullptr)();
}

void Exchange::on_answer(const Message& message) {
  const MessageHeader& answering = message.header;
  if (answering.source == SourceKind::kGradient) return on_slot_filled(message.from, answering);
  const auto found = asks_.find(answering.ask);
  if (answering.answer == AnswerKind::kComing) {
    const bool other = found != asks_.end() && found->second.size != answering.size;
    if (other) {
      fail("rank " + std::to_string(message.from.value()) + " sent another size",
           text_of(found->second.call->operation()), found->second.call);
    }
    return pull_more(std::make_shared<Pull>(Pull{
        .from = message.from, .tag = answering.tag, .ask = answering.ask, .size = answering.size}));
  }
  if (found == asks_.end()) return;  // the call has ended
  const Ask ask = found->second;
  if (answering.answer == AnswerKind::kNotYet) {
    ask.call->must_wait = true;
    return;
  }
  asks_.erase(found);
  const std::string who = "rank " + std::to_string(ask.owner.value());
  switch (answering.answer) {
    case AnswerKind::kNever:
      return fail(who + " left", text_of(ask.call->operation()), ask.call);
    case AnswerKind::kOtherSize: {
      const std::string what = who + " sends " + std::to_string(answering.size) + " bytes, rank " +
                               std::to_string(rank_.value()) + " receives " +
                               std::to_string(ask.size);
      return fail(what, text_of(ask.call->operation()), ask.call, what);
    }
    case AnswerKind::kEmpty:
      ask.call->empty = true;
      break;
    default:
      if (static_cast<std::int64_t>(message.payload.size()) != ask.size) {
        return fail(who + " sent another size", text_of(ask.call->operation()), ask.call);
      }
      copy_bytes(ask.target, message.payload.data(), ask.size);
      if (ask.source <= SourceKind::kSum) bytes_gathered_ += ask.size;
  }
  ask.call->done_with(ask.owner);
  settle(*ask.call);
}

void Exchange::pull_more(const std::shared_ptr<Pull>& pull) {
  while (pull->under_way < kChunksAtOnce && pull->begun < pull->size) {
    const std::int64_t begin = pull->begun;
    const std::int64_t size = std::min(kChunkBytes, pull->size - begin);
    Chunk chunk = pool_.take();
    pull->begun += size;
    ++pull->under_way;
    link_.receive_bytes(
        pull->from, pull->tag, std::span(*chunk).first(static_cast<std::size_t>(size)),
        [self = shared_from_this(), this, pull, chunk, begin, size](std::size_t came) {
          --pull->under_way;
          const auto found = asks_.find(pull->ask);
          // Of an answer that nobody waits for, or that its sender gave up, the rest still comes.
          if (found != asks_.end() && came == static_cast<std::size_t>(size) &&
              pull->size == found->second.size) {
            const Ask ask = found->second;
            copy_bytes(ask.target + begin, chunk->data(), size);
            if (ask.source <= SourceKind::kSum) bytes_gathered_ += size;
            pull->taken += size;
            if (pull->taken == pull->size) {
              asks_.erase(found);
              ask.call->done_with(ask.owner);
              settle(*ask.call);
            }
          }
          pull_more(pull);
        });
  }
}

void Exchange::send(Call& call, std::span<const std::byte> bytes, Rank to) {
  if (!begin(call)) return;
  auto& queue = outgoing_[to.value()];
  Outgoing message{.number = ++sent_[to.value()], .size = static_cast<std::int64_t>(bytes.size())};
  if (message.size <= kCopiedBytes && queue.empty()) {
    message.copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  } else {
    call.lent = std::make_shared<Lent>(Lent{.data = bytes.data()});
    // Of a message of nothing too, the call is told apart from an ended one.
    static constexpr std::byte kNothing{};
    if (bytes.empty()) call.lent->data = &kNothing;
    message.lent = call.lent;
    message.call = &call;
    call.awaited.push_back(to);
  }
  queue.push_back(std::move(message));
  if (call.awaited.empty()) settle(call);
  answer_waiting(SourceKind::kMessage, 0);
}

void Exchange::receive(Call& call, std::span<std::byte> bytes, Rank from) {
  if (!begin(call)) return;
  ask(call, from, SourceKind::kMessage, 0, ++received_[from.value()], bytes.data(),
      static_cast<std::int64_t>(bytes.size()));
}

}  // namespace shardlight::comm
