#include "shardlight/engine/local_gradients.h"

#include <bit>

#include "shardlight/engine/sum_tensor.h"

namespace shardlight::engine {

Result<LocalGradients> LocalGradients::create(memory::Account& account, const layout::Unit& unit,
                                              layout::DType dtype, memory::Tag first, bool tree,
                                              std::int64_t micro_steps) {
  LocalGradients gradients(unit, dtype);
  const int levels =
      tree ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(micro_steps))) : 1;
  const Bytes bytes = layout::bytes_per_element(dtype) * unit.elements.value();
  for (int level = 0; level < levels; ++level) {
    const auto tag = level + 1 == levels ? first : memory::Tag::kUnreduced;
    SHARDLIGHT_TRY(auto buffer, memory::Buffer::zeros(account, tag, bytes));
    gradients.levels_.push_back(
        {.buffer = std::move(buffer), .has = std::vector<bool>(unit.parameters.size())});
  }
  return gradients;
}

at::Tensor LocalGradients::view(const Level& level, std::size_t member) const {
  const auto& placed = unit_->parameters[member];
  return tensor_of(sum_of(level).part(placed.offset, placed.elements));
}

void LocalGradients::add(std::size_t member, std::int64_t micro_step, const at::Tensor& gradient) {
  carry_up(member, micro_step, gradient.view({-1}));
}

void LocalGradients::end_micro_step(std::int64_t micro_step) {
  for (std::size_t member = 0; member < added_.size(); ++member) {
    if (added_[member] == micro_step) carry_up(member, micro_step, {});
  }
}

// As a binary counter carries: a left-hand node waits at its level, a right-hand one joins it and
// they go up. Without a tree there is one level, which everything joins. `carry` may be undefined.
void LocalGradients::carry_up(std::size_t member, std::int64_t micro_step, at::Tensor carry) {
  added_[member] = micro_step + 1;
  auto rest = static_cast<std::uint64_t>(micro_step);
  for (std::size_t k = 0; k + 1 < levels_.size(); ++k, rest >>= 1U) {
    Level& level = levels_[k];
    if ((rest & 1U) == 0) {
      if (carry.defined()) join(level, member, carry);
      return;
    }
    if (!level.has[member]) continue;
    if (carry.defined()) join(level, member, carry);
    carry = view(level, member);
    level.has[member] = false;
  }
  if (carry.defined()) join(levels_.back(), member, carry);
}

void LocalGradients::join(Level& level, std::size_t member, const at::Tensor& gradient) {
  const at::Tensor target = view(level, member);
  if (level.has[member]) {
    target.add_(gradient);
  } else {
    target.copy_(gradient);
  }
  level.has[member] = true;
}

void LocalGradients::clear() {
  for (Level& level : levels_) level.has.assign(level.has.size(), false);
  added_.assign(added_.size(), 0);
}

std::vector<comm::GradientPart> LocalGradients::parts() const {
  const Level& level = levels_.back();
  std::vector<comm::GradientPart> parts;
  for (std::size_t member = 0; member < unit_->parameters.size(); ++member) {
    if (!level.has[member]) continue;
    const auto& placed = unit_->parameters[member];
    parts.push_back({.begin = placed.offset,
                     .elements = placed.elements,
                     .data = sum_of(level).part(placed.offset, placed.elements).data()});
  }
  return parts;
}

}  // namespace shardlight::engine
