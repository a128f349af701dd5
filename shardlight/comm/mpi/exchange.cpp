#include "shardlight/comm/mpi/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardlight/comm/text_hash.h"

namespace shardlight::comm {
namespace {

constexpr Count kAddedElements(kChunkBytes / 4);  // of gradients of any dtype
constexpr std::uint32_t kProtocol = 2;

std::uint64_t fingerprint_of(const std::vector<UnitSpec>& units) {
  return hash_of_text(fmt::format("mpi {}", kProtocol) + text_of(units));
}

}  // namespace

Result<std::shared_ptr<Exchange>> Exchange::make(Link& link, const Heard& heard,
                                                 std::uint32_t epoch, std::vector<UnitSpec> units,
                                                 const MpiOptions& options) {
  SHARDLIGHT_TRY(OwnMemory memory, OwnMemory::create(units, link.rank()));
  return std::shared_ptr<Exchange>(
      new Exchange(link, heard, epoch, std::move(units), options, std::move(memory)));
}

Exchange::Exchange(Link& link, const Heard& heard, std::uint32_t epoch, std::vector<UnitSpec> units,
                   const MpiOptions& options, OwnMemory memory)
    : link_(link),
      heard_(heard),
      epoch_(epoch),
      units_(std::move(units)),
      options_(options),
      rank_(link.rank()),
      world_(link.world()),
      memory_(std::move(memory)),
      fingerprint_(fingerprint_of(units_)) {
  const auto ranks = static_cast<std::size_t>(world_);
  offers_.resize(ranks);
  hellos_.resize(ranks);
  statuses_.resize(ranks);
  left_.resize(ranks);
  lost_.resize(ranks);
  sent_.resize(ranks);
  received_.resize(ranks);
  outgoing_.resize(ranks);
  owned_.resize(units_.size());
  for (UnitId unit = 0; unit < units_.size(); ++unit) {
    const UnitSpec& spec = units_[unit];
    const std::vector<Rank> all = owners(unit);
    if (!spec.reduces || std::find(all.begin(), all.end(), rank_) == all.end()) continue;
    owned_[unit] = std::make_unique<Owned>(SliceSum(spec, rank_, kAddedElements));
    owned_[unit]->released.resize(ranks);
    owned_[unit]->current.resize(ranks);
    owned_[unit]->next.resize(ranks);
  }
}

// Of a unit of nothing rank 0 says whether anybody had a gradient.
std::vector<Rank> Exchange::owners(UnitId unit) const {
  std::vector<Rank> owners;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (units_[unit].slices[rank] > Count(0)) owners.emplace_back(rank);
  }
  if (owners.empty()) owners.emplace_back(0);
  return owners;
}

TrafficCount Exchange::traffic() const {
  return {.gathered = Bytes(bytes_gathered_.load()), .reduced = Bytes(bytes_reduced_.load())};
}

void Exchange::tell_all(const MessageHeader& header, std::span<const std::byte> payload) {
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (Rank(rank) != rank_ && !heard_.goodbye[rank] && !lost_[rank]) {
      link_.send(Rank(rank), header, payload);
    }
  }
}

bool Exchange::begin(Call& call) {
  if (has_failed_) {
    call.finish(tl::unexpected(error_of(call.operation())));
    return false;
  }
  calls_.push_back(&call);
  return true;
}

void Exchange::settle(Call& call) {
  if (call.awaited.empty()) end(call, {});
}

void Exchange::end(Call& call, Status status) {
  std::erase(calls_, &call);
  std::erase_if(giving_, [&](const auto& giving) { return giving.second.call == &call; });
  std::erase_if(broadcasts_, [&](const auto& broadcast) { return broadcast.second.call == &call; });
  call.finish(std::move(status));
}

void Exchange::connect(Call& call) {
  if (!begin(call)) return;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (Rank(rank) != rank_ && !hellos_[rank]) call.awaited.emplace_back(rank);
  }
  MessageHeader hello = header(MessageKind::kHello);
  hello.number = static_cast<std::int64_t>(fingerprint_);
  const std::vector<MemoryOffer> offers = {memory_.offer()};
  tell_all(hello, bytes_of_values(offers));
  on_hello(rank_, fingerprint_, offers[0]);
}

void Exchange::on_hello(Rank from, std::uint64_t fingerprint, const MemoryOffer& offer) {
  hellos_[from.value()] = fingerprint;
  offers_[from.value()] = offer;
  const auto connecting = std::find_if(calls_.begin(), calls_.end(), [](const Call* call) {
    return call->operation().kind == OperationKind::kConnect;
  });
  if (connecting == calls_.end()) return;
  Call& call = **connecting;
  call.done_with(from);
  if (!call.awaited.empty()) return;
  for (std::int64_t rank = 1; rank < world_; ++rank) {
    if (*hellos_[rank] == *hellos_[0]) continue;
    const std::string what = fmt::format(
        "rank {} has units of fingerprint {:016x} for its connect number {}, rank 0 has {:016x}",
        rank, *hellos_[rank], epoch_, *hellos_[0]);
    return fail(what, "connect", &call, what);
  }
  settle(call);
}

void Exchange::handle(const Message& message) {
  const MessageHeader& header = message.header;
  const Rank from = message.from;
  switch (header.kind) {
    case MessageKind::kHello: {
      // A rank of another protocol is told apart by its fingerprint.
      auto offers = values_of_bytes<MemoryOffer>(message.payload);
      offers.resize(1);
      return on_hello(from, static_cast<std::uint64_t>(header.number), offers[0]);
    }
    case MessageKind::kStatus: {
      const auto records = values_of_bytes<StatusRecord>(message.payload);
      if (!records.empty()) statuses_[from.value()] = records[0];
      return;
    }
    case MessageKind::kLeft:
      left_[from.value()] = true;
      statuses_[from.value()] = {.collectives = header.number};
      return;
    case MessageKind::kFailed:
      return on_failed(message);
    case MessageKind::kAsk:
      return on_ask(from, header);
    case MessageKind::kAnswer:
      return on_answer(message);
    default:
      break;
  }
  if (has_failed_) return;
  switch (header.kind) {
    case MessageKind::kContribute:
      return on_contribute(message);
    case MessageKind::kTaken: {
      const auto found = giving_.find(header.unit);
      if (found == giving_.end()) return;
      Call& call = *found->second.call;
      call.done_with(from);
      return settle(call);
    }
    case MessageKind::kReleased:
      owned_[header.unit]->released[from.value()] = header.number;
      return admit(header.unit);
    case MessageKind::kArrive:
      return arrive(from, header.number, values_of_bytes<double>(message.payload), header.maximum);
    case MessageKind::kResult:
      return take_result(header.number, values_of_bytes<double>(message.payload));
    default:
      return;
  }
}

void Exchange::leave() {
  if (left_[rank_.value()]) return;
  left_[rank_.value()] = true;
  MessageHeader leaving = header(MessageKind::kLeft);
  leaving.number = collectives_;
  tell_all(leaving);
  never_answer();
}

bool Exchange::finished() const {
  if (!left_[rank_.value()]) return false;
  if (has_failed_) return true;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (!left_[rank] && !lost_[rank]) return false;
  }
  return true;
}

}  // namespace shardlight::comm
