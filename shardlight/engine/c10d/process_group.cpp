#include "shardlight/engine/c10d/process_group.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "shardlight/base/arithmetic.h"

namespace shardlight::engine {
namespace {

using std::chrono::milliseconds;

// How long a wait goes on before it looks what the other ranks say of themselves.
constexpr milliseconds kLook{100};
// The group's own limit lies behind the call's, which says more.
constexpr milliseconds kBehind{2000};
constexpr int kMessageTag = 0x534c;
constexpr int kAbortTag = 0x534d;

milliseconds left_of(const comm::Deadline& deadline) {
  return std::chrono::duration_cast<milliseconds>(deadline.left());
}

// The owner of the memory lives as long as the tensor, so as long as the group may touch it.
at::Tensor tensor_of(std::byte* data, std::int64_t bytes, std::shared_ptr<void> owner) {
  return at::from_blob(
      data, {bytes}, [kept = std::move(owner)](void*) {}, at::kByte);
}

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "the group failed";
  }
}

}  // namespace

Status ProcessGroup::check(const GroupPtr& group) {
  bool has_backend = false;
  try {
    has_backend = group->getBackend(c10::DeviceType::CPU) != nullptr;
  } catch (const std::exception&) {
    has_backend = false;
  }
  if (has_backend) return {};
  return user_error("group", group->getBackendName(), "one with a backend for CPU tensors");
}

ProcessGroup::ProcessGroup(const GroupPtr& group, Board& board, Bytes staging)
    : backend_(group->getBackend(c10::DeviceType::CPU)),
      board_(&board),
      rank_(group->getRank()),
      world_(group->getSize()),
      bytes_(staging),
      most_(round_up(staging.value() / std::max<std::int64_t>(world_ - 1, 1) - 63, 64)),
      staging_(std::make_shared<Staging>()) {
  if (world_ == 1) return;
  const auto size = static_cast<std::size_t>(staging.value());
  staging_->out.resize(size);
  staging_->in.resize(size);
}

// Messages of Gloo are waited for in one go: a wait of them that ends too early ends the group.
ProcessGroup::Outcome ProcessGroup::wait(const std::function<WorkPtr()>& start,
                                         const RankCall& call, bool may_look) {
  WorkPtr work;
  std::string lost;
  try {
    work = start();
  } catch (...) {
    return board_->blame(call, text_of(std::current_exception()));
  }
  for (bool first = true;; first = false) {
    const milliseconds left = left_of(call.deadline);
    if (left.count() <= 0 && !first) break;
    const milliseconds some = may_look ? std::min(left, kLook) : left;
    try {
      work->wait(std::max(some, milliseconds(1)));
      if (!first) board_->waits_no_more(call);
      return std::nullopt;
    } catch (...) {
      if (!may_look || work->isCompleted()) lost = text_of(std::current_exception());
    }
    if (!may_look) break;
    if (work->isCompleted()) {
      if (!work->exception()) continue;
      lost = text_of(work->exception());
      break;
    }
    board_->waits(call);
    auto cause = board_->failure(call);
    if (const auto gone = cause ? std::nullopt : board_->gone(call)) {
      cause = board_->first({.by = rank_, .call = call.text, .what = *gone});
    }
    if (!cause) continue;
    abort();
    return cause;
  }
  if (!may_look && left_of(call.deadline).count() <= 0) lost.clear();
  Cause cause = board_->blame(call, lost);
  abort();
  return cause;
}

ProcessGroup::Outcome ProcessGroup::exchange(const Sizes& sizes, const RankCall& call) {
  if (world_ == 1) return std::nullopt;
  return wait(
      [&] {
        const auto all = [](const std::vector<std::int64_t>& each) {
          return std::accumulate(each.begin(), each.end(), std::int64_t{0});
        };
        at::Tensor in = tensor_of(staging_->in.data(), all(sizes.in), staging_);
        at::Tensor out = tensor_of(staging_->out.data(), all(sizes.out), staging_);
        auto in_sizes = sizes.in;
        auto out_sizes = sizes.out;
        c10d::AllToAllOptions options;
        options.timeout = std::max(left_of(call.deadline), milliseconds(0)) + kBehind;
        return backend_->alltoall_base(in, out, in_sizes, out_sizes, options);
      },
      call, true);
}

ProcessGroup::Outcome ProcessGroup::share(std::span<const std::byte> own,
                                          const std::vector<std::span<std::byte>>& targets,
                                          const RankCall& call) {
  std::int64_t longest = 0;
  for (const auto& target : targets) {
    longest = std::max(longest, static_cast<std::int64_t>(target.size()));
  }
  const auto self = static_cast<std::size_t>(rank_.value());
  for (std::int64_t begin = 0; begin < longest; begin += most_) {
    Sizes sizes;
    const auto within = [&](std::size_t size) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(size) - begin, 0, most_);
    };
    const std::int64_t mine = within(own.size());
    std::byte* out = staging_->out.data();
    for (std::size_t rank = 0; rank < targets.size(); ++rank) {
      sizes.in.push_back(rank == self ? 0 : within(targets[rank].size()));
      sizes.out.push_back(rank == self ? 0 : mine);
      if (rank == self || mine == 0) continue;
      std::memcpy(out, own.data() + begin, static_cast<std::size_t>(mine));
      out += mine;
    }
    if (auto cause = exchange(sizes, call)) return cause;
    const std::byte* in = staging_->in.data();
    for (std::size_t rank = 0; rank < targets.size(); ++rank) {
      if (sizes.in[rank] == 0) continue;
      std::memcpy(targets[rank].data() + begin, in, static_cast<std::size_t>(sizes.in[rank]));
      in += sizes.in[rank];
    }
  }
  return std::nullopt;
}

ProcessGroup::Outcome ProcessGroup::send(std::span<const std::byte> bytes, Rank to,
                                         const RankCall& call) {
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return wait(
      [&] {
        std::vector<at::Tensor> tensors = {
            tensor_of(copy->data(), static_cast<std::int64_t>(copy->size()), copy)};
        return backend_->send(tensors, static_cast<int>(to.value()), kMessageTag);
      },
      call, false);
}

ProcessGroup::Outcome ProcessGroup::receive(std::span<std::byte> bytes, Rank from,
                                            const RankCall& call) {
  const auto came = std::make_shared<std::vector<std::byte>>(bytes.size());
  auto cause = wait(
      [&] {
        std::vector<at::Tensor> tensors = {
            tensor_of(came->data(), static_cast<std::int64_t>(came->size()), came)};
        return backend_->recv(tensors, static_cast<int>(from.value()), kMessageTag);
      },
      call, false);
  if (!cause) std::ranges::copy(*came, bytes.begin());
  return cause;
}

// Gloo has no abort, but a receive that nobody answers closes all connections when it gives up.
void ProcessGroup::abort() {
  if (world_ == 1) return;
  try {
    if (backend_->getBackendName() != "gloo") return backend_->abort();
    const auto nothing = std::make_shared<std::array<std::byte, 1>>();
    std::vector<at::Tensor> tensors = {tensor_of(nothing->data(), 1, nothing)};
    const auto other = static_cast<int>((rank_.value() + 1) % world_);
    backend_->recv(tensors, other, kAbortTag)->wait(milliseconds(1));
  } catch (const std::exception&) {
    return;  // as it must
  }
}

}  // namespace shardlight::engine
