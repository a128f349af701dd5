// Barriers, all-reduces and broadcasts. Rank 0 combines, so all get the same bits.
#include <algorithm>
#include <utility>

#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/mpi/exchange.h"

namespace shardlight::comm {

void Exchange::all_reduce(Call& call, std::span<double> values, Combine combine) {
  call.collective = ++collectives_;
  if (!begin(call)) return;
  collective_call_ = &call;
  collective_values_ = values;
  std::vector<double> own(values.begin(), values.end());
  const bool maximum = combine == Combine::kMax;
  if (rank_ == Rank(0)) return arrive(rank_, collectives_, std::move(own), maximum);
  MessageHeader arriving = header(MessageKind::kArrive);
  arriving.number = collectives_;
  arriving.maximum = maximum;
  link_.send(Rank(0), arriving, bytes_of_values(own));
}

void Exchange::arrive(Rank rank, std::int64_t number, std::vector<double> values, bool maximum) {
  Arrivals& arrivals = arrivals_[number];
  arrivals.values.resize(static_cast<std::size_t>(world_));
  arrivals.values[rank.value()] = std::move(values);
  arrivals.maximum = arrivals.maximum || maximum;
  auto& entered = statuses_[rank.value()].collectives;
  entered = std::max(entered, number);
  if (++arrivals.count < world_) return;
  std::vector<double> result = *arrivals.values[0];
  for (std::int64_t other = 1; other < world_; ++other) {
    combine_into(result, *arrivals.values[other], arrivals.maximum ? Combine::kMax : Combine::kSum);
  }
  arrivals_.erase(number);
  MessageHeader telling = header(MessageKind::kResult);
  telling.number = number;
  tell_all(telling, bytes_of_values(result));
  take_result(number, result);
}

void Exchange::take_result(std::int64_t number, std::span<const double> values) {
  if (collective_call_ == nullptr || collective_call_->collective != number) return;
  std::copy_n(values.begin(), std::min(values.size(), collective_values_.size()),
              collective_values_.begin());
  end(*std::exchange(collective_call_, nullptr), {});
}

void Exchange::broadcast(Call& call, std::span<std::byte> bytes, Rank root) {
  const std::int64_t number = ++broadcasts_counted_;
  if (!begin(call)) return;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0 || world_ == 1) return settle(call);
  if (rank_ != root) {
    return ask(call, root, SourceKind::kBroadcast, 0, number, bytes.data(), size);
  }
  call.lent = std::make_shared<Lent>(Lent{.data = bytes.data()});
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    if (Rank(rank) != rank_) call.awaited.emplace_back(rank);
  }
  broadcasts_[number] = {.call = &call, .lent = call.lent, .size = size};
  answer_waiting(SourceKind::kBroadcast, 0);
}

}  // namespace shardlight::comm
