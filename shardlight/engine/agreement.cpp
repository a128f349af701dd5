#include "shardlight/engine/agreement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string_view>

namespace shardlight::engine {
namespace {

// A hash in two halves that doubles hold exactly, each with its negative: after an all-reduce of
// maxima, equal on all ranks where the highest is the lowest.
constexpr std::size_t kHashValues = 4;

void append_hash(std::vector<double>& values, std::uint64_t hash) {
  const auto low = static_cast<double>(hash & 0xffffffffU);
  const auto high = static_cast<double>(hash >> 32U);
  values.insert(values.end(), {low, -low, high, -high});
}

bool same_hash(const double* four) { return four[0] == -four[1] && four[2] == -four[3]; }

}  // namespace

Status agree_on_any(comm::Transport& transport, std::vector<bool>& flags, comm::Deadline deadline) {
  constexpr std::size_t kAtOnce = comm::Transport::kMaxAllReduce;
  for (std::size_t begin = 0; begin < flags.size(); begin += kAtOnce) {
    const std::size_t size = std::min(kAtOnce, flags.size() - begin);
    std::array<double, kAtOnce> values = {};
    for (std::size_t i = 0; i < size; ++i) values.at(i) = flags[begin + i] ? 1 : 0;
    SHARDLIGHT_TRY_STATUS(
        transport.all_reduce(std::span(values).first(size), comm::Combine::kMax, deadline));
    for (std::size_t i = 0; i < size; ++i) flags[begin + i] = values.at(i) > 0;
  }
  return {};
}

Result<BackwardFlags> agree(comm::Transport& transport, BackwardFlags mine,
                            comm::Deadline deadline) {
  std::vector<bool> flags = {mine.late, mine.unused, mine.active};
  SHARDLIGHT_TRY_STATUS(agree_on_any(transport, flags, deadline));
  return BackwardFlags{.late = flags[0], .unused = flags[1], .active = flags[2]};
}

Result<StepFlags> agree(comm::Transport& transport, StepFlags mine, comm::Deadline deadline) {
  constexpr std::size_t kFlags = 4;
  std::vector<double> values = {mine.parameters_edited ? 1.0 : 0.0,
                                mine.gradients_edited ? 1.0 : 0.0, mine.lr_factor, -mine.lr_factor};
  append_hash(values, mine.optimizer_settings);
  SHARDLIGHT_TRY_STATUS(transport.all_reduce(values, comm::Combine::kMax, deadline));
  if (values[2] != -values[3]) {
    return user_error("lr_schedule", std::to_string(mine.lr_factor),
                      "the same factor on all ranks: they have " + std::to_string(-values[3]) +
                          " to " + std::to_string(values[2]));
  }
  if (!same_hash(&values[kFlags])) {
    return user_error("optimizer", "with other settings on some ranks than on others",
                      "the same lr and other hyper-parameters on all ranks in every step");
  }
  return StepFlags{.parameters_edited = values[0] > 0,
                   .gradients_edited = values[1] > 0,
                   .lr_factor = mine.lr_factor,
                   .optimizer_settings = mine.optimizer_settings};
}

Result<std::optional<std::size_t>> first_difference(
    comm::Transport& transport, const std::vector<std::span<const std::byte>>& spans,
    comm::Deadline deadline) {
  constexpr std::size_t kAtOnce = comm::Transport::kMaxAllReduce / kHashValues;
  for (std::size_t begin = 0; begin < spans.size(); begin += kAtOnce) {
    const std::size_t size = std::min(kAtOnce, spans.size() - begin);
    std::vector<double> values;
    for (const auto& span : std::span(spans).subspan(begin, size)) {
      const std::uint64_t hash =
          std::hash<std::string_view>()({reinterpret_cast<const char*>(span.data()), span.size()});
      append_hash(values, hash);
    }
    SHARDLIGHT_TRY_STATUS(transport.all_reduce(values, comm::Combine::kMax, deadline));
    for (std::size_t i = 0; i < size; ++i) {
      if (!same_hash(&values[i * kHashValues])) return begin + i;
    }
  }
  return std::nullopt;
}

Result<NormAgreement> agree_on_norm(comm::Transport& transport, const ExactSum& squares,
                                    bool finite, comm::Deadline deadline) {
  std::array<double, ExactSum::kDigits + 1> values = {};
  std::ranges::copy(squares.digits(), values.begin());
  values.back() = finite ? 0 : 1;
  SHARDLIGHT_TRY_STATUS(transport.all_reduce(values, comm::Combine::kSum, deadline));
  const auto digits = std::span<const double>(values).first(ExactSum::kDigits);
  return NormAgreement{.norm = std::sqrt(ExactSum::from_digits(digits).value()),
                       .finite = values.back() == 0};
}

}  // namespace shardlight::engine
