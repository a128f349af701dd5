#include "shardlight/cli/train/rank_values.h"

#include <algorithm>

namespace shardlight::cli {

Result<std::vector<std::vector<double>>> values_of_ranks(comm::Transport& transport,
                                                         const std::vector<double>& own,
                                                         comm::Deadline deadline) {
  const auto world = static_cast<std::size_t>(transport.world());
  const auto rank = static_cast<std::size_t>(transport.rank().value());
  const std::size_t each = own.size();
  std::vector<double> all(world * each, 0.0);
  std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(rank * each));
  for (std::size_t done = 0; done < all.size(); done += comm::Transport::kMaxAllReduce) {
    const std::size_t count = std::min(all.size() - done, comm::Transport::kMaxAllReduce);
    SHARDLIGHT_TRY_STATUS(
        transport.all_reduce(std::span(all).subspan(done, count), comm::Combine::kSum, deadline));
  }
  std::vector<std::vector<double>> ranks;
  for (std::size_t r = 0; r < world; ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * each);
    ranks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(each));
  }
  return ranks;
}

double mean_in_order(const std::vector<std::vector<double>>& ranks, std::size_t count) {
  double sum = 0;
  for (const auto& values : ranks) {
    for (std::size_t i = 0; i < count; ++i) sum += values[i];
  }
  return sum / static_cast<double>(ranks.size() * count);
}

}  // namespace shardlight::cli
