#include "shardlight/base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace shardlight {
namespace {

// Nobody mistypes a longer name, and the distance takes time and space by its square.
constexpr std::size_t kLongestName = 80;

// Optimal string alignment distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replace, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  if (name.size() > kLongestName) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance * 3 > std::max(name.size(), candidate.size())) continue;
    if (best != nullptr && distance >= best_distance) continue;
    best = &candidate;
    best_distance = distance;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string did_you_mean(std::span<const std::string> candidates, std::string_view given) {
  const auto nearest = nearest_name(given, candidates);
  return nearest ? fmt::format("did you mean {}? ", *nearest) : "";
}

std::string one_of(std::span<const std::string> candidates, std::string_view given) {
  return fmt::format("{}one of: {}", did_you_mean(candidates, given), fmt::join(candidates, ", "));
}

}  // namespace shardlight
