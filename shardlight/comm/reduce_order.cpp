#include "shardlight/comm/reduce_order.h"

#include <algorithm>
#include <bit>
#include "shardlight/base/arithmetic.h"

namespace shardlight::comm {
namespace {

std::vector<ReduceStep> linear_steps(std::int64_t rank) {
  return {{.source = kOwnGradient, .target = kSumBuffer, .after = rank - 1}};
}

std::vector<ReduceStep> grouped_steps(std::int64_t group, std::int64_t world, std::int64_t rank) {
  const std::int64_t index = rank / group;
  const std::int64_t first = index * group;
  const std::int64_t last = std::min(first + group, world) - 1;
  const int buffer = static_cast<int>(1 + index);
  std::vector<ReduceStep> steps = {
      {.target = buffer, .after = rank == first ? ReduceStep::kNobody : rank - 1}};
  if (rank == last) steps.push_back({.source = buffer, .target = kSumBuffer, .after = first - 1});
  return steps;
}

// A node covers ranks [begin, end); its partial sum stands in the buffer of its first pair.
int buffer_of_node(std::int64_t begin) { return static_cast<int>(1 + begin / 2); }

// Appends the steps of `rank` within the node. The last rank of a right child merges it into the
// left one; a right child of one rank is that rank's gradient itself.
void append_tree_steps(std::int64_t begin, std::int64_t end, std::int64_t rank,
                       std::vector<ReduceStep>& steps) {
  const std::int64_t ranks = end - begin;
  if (ranks == 1) {
    steps.push_back({.target = buffer_of_node(begin)});
    return;
  }
  const auto half =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(ranks - 1)));
  const std::int64_t middle = begin + half;
  if (rank < middle) return append_tree_steps(begin, middle, rank, steps);
  if (end - middle == 1) {
    steps.push_back({.target = buffer_of_node(begin), .after = middle - 1});
    return;
  }
  append_tree_steps(middle, end, rank, steps);
  if (rank == end - 1) {
    steps.push_back(
        {.source = buffer_of_node(middle), .target = buffer_of_node(begin), .after = middle - 1});
  }
}

std::vector<ReduceStep> tree_steps(std::int64_t world, std::int64_t rank) {
  std::vector<ReduceStep> steps;
  append_tree_steps(0, world, rank, steps);
  // The whole tree is complete when its last rank has merged it.
  if (rank == world - 1) steps.push_back({.source = buffer_of_node(0), .target = kSumBuffer});
  return steps;
}

}  // namespace

std::string text_of(const ReduceOrder& order) {
  switch (order.kind) {
    case ReduceOrderKind::kLinear:
      return "linear";
    case ReduceOrderKind::kGrouped:
      return "grouped " + std::to_string(order.group);
    case ReduceOrderKind::kTree:
      return "tree";
  }
  return "?";
}

std::vector<ReduceStep> reduce_steps(const ReduceOrder& order, std::int64_t world, Rank rank) {
  switch (order.kind) {
    case ReduceOrderKind::kLinear:
      return linear_steps(rank.value());
    case ReduceOrderKind::kGrouped:
      return grouped_steps(order.group, world, rank.value());
    case ReduceOrderKind::kTree:
      return tree_steps(world, rank.value());
  }
  return {};
}

int reduce_buffers(const ReduceOrder& order, std::int64_t world) {
  switch (order.kind) {
    case ReduceOrderKind::kLinear:
      return 1;
    case ReduceOrderKind::kGrouped:
      return static_cast<int>(1 + divide_up(world, order.group));
    case ReduceOrderKind::kTree:
      return static_cast<int>(1 + divide_up(world, 2));
  }
  return 1;
}

}  // namespace shardlight::comm
