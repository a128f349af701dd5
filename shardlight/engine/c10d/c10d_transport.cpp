#include "shardlight/engine/c10d/c10d_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "shardlight/base/arithmetic.h"
#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/copy.h"
#include "shardlight/comm/text_hash.h"

namespace shardlight::engine {

using comm::Deadline;
using comm::Operation;
using comm::OperationKind;
using comm::UnitId;
using comm::UnitSpec;

namespace {

constexpr std::int64_t kPage = 4096;
// No message keeps a shorter deadline; such a call waits this long instead.
constexpr Seconds kShortest{0.01};
constexpr Seconds kInsteadOfShorter{5};

Bytes size_of(std::size_t bytes) { return Bytes(static_cast<std::int64_t>(bytes)); }

std::size_t index_of(Rank rank) { return static_cast<std::size_t>(rank.value()); }

std::int64_t bytes_kept(const UnitSpec& unit, Rank rank) {
  const Bytes each = layout::bytes_per_element(unit.dtype);
  return (unit.whole ? unit.bytes() : each * unit.slices[index_of(rank)].value()).value();
}

}  // namespace

Result<std::unique_ptr<C10dTransport>> C10dTransport::make(std::unique_ptr<Board> board,
                                                           ProcessGroup group,
                                                           std::vector<UnitSpec> units) {
  std::int64_t bytes = kPage;
  for (const UnitSpec& unit : units) bytes += round_up(bytes_kept(unit, group.rank()), kPage);
  SHARDLIGHT_TRY(comm::Segment memory, comm::Segment::anonymous(Bytes(bytes)));
  memory.populate(Bytes(0), Bytes(bytes));
  return std::unique_ptr<C10dTransport>(
      new C10dTransport(std::move(board), std::move(group), std::move(units), std::move(memory)));
}

C10dTransport::C10dTransport(std::unique_ptr<Board> board, ProcessGroup group,
                             std::vector<UnitSpec> units, comm::Segment memory)
    : board_(std::move(board)),
      group_(std::move(group)),
      units_(std::move(units)),
      memory_(std::move(memory)),
      // Of gradients of any dtype.
      chunk_elements_(group_.most_bytes() / static_cast<std::int64_t>(sizeof(float))),
      owned_(units_.size()),
      sent_(static_cast<std::size_t>(group_.world())),
      received_(sent_.size()) {
  // So a call is never taken for one of another transport over the group, before or beside.
  history_ = comm::hash_of_text(board_->name());
  std::int64_t end = 0;
  for (UnitId unit = 0; unit < units_.size(); ++unit) {
    owned_[unit].memory = end;
    end += round_up(bytes_kept(units_[unit], rank()), kPage);
    if (!units_[unit].reduces) continue;
    owned_[unit].sum.emplace(units_[unit], rank(), Count(chunk_elements_));
  }
}

C10dTransport::~C10dTransport() { board_->leave(calls_); }

Status C10dTransport::meet(Deadline deadline) {
  const std::scoped_lock lock(calls_mutex_);
  CallHeader header;
  header.version = static_cast<std::int64_t>(comm::hash_of_text(comm::text_of(units_)));
  Collective call =
      collective({.kind = OperationKind::kConnect, .bytes = group_.staging()}, deadline, header);
  return begin(call);
}

Operation C10dTransport::operation(OperationKind kind, UnitId unit, Bytes bytes) const {
  return {.kind = kind, .unit = units_[unit].name, .bytes = bytes};
}

Error C10dTransport::error_of(const Operation& operation, const Cause& cause) const {
  const bool own = cause.by == rank() && cause.call == comm::text_of(operation);
  return Error::environment(
      {.rank = rank(), .unit = operation.unit, .operation = std::string(name_of(operation.kind))},
      own ? cause.what
          : fmt::format("{}, as rank {} found in {}", cause.what, cause.by.value(), cause.call),
      Unusable::kCommunicator);
}

Status C10dTransport::check_alive(const Operation& operation) const {
  const std::scoped_lock lock(failure_mutex_);
  if (!failure_) return {};
  return Failure(error_of(operation, *failure_));
}

Failure C10dTransport::fail(const Operation& operation, const Cause& cause) {
  const std::scoped_lock lock(failure_mutex_);
  if (!failure_) failure_ = cause;
  return Failure(error_of(operation, *failure_));
}

Status C10dTransport::settled(const Operation& operation, const ProcessGroup::Outcome& outcome) {
  if (!outcome) return {};
  return fail(operation, *outcome);
}

C10dTransport::Collective C10dTransport::collective(Operation operation, Deadline deadline,
                                                    CallHeader header) {
  if (deadline.left() < kShortest) deadline = Deadline(kInsteadOfShorter);
  header.kind = static_cast<std::uint8_t>(operation.kind);
  if (operation.unit.empty()) header.bytes = operation.bytes.value();
  RankCall call{.text = comm::text_of(operation), .deadline = deadline};
  return {.header = header, .operation = std::move(operation), .call = std::move(call)};
}

Status C10dTransport::begin(Collective& call, std::span<const std::int64_t> numbers) {
  SHARDLIGHT_TRY_STATUS(check_alive(call.operation));
  CallHeader& header = call.header;
  header.number = call.call.number = ++calls_;
  append_to_history(header, history_);
  history_ = header.history;
  header.numbers = static_cast<std::uint32_t>(numbers.size());
  std::copy_n(numbers.begin(), std::min(numbers.size(), CallHeader::kNumbersInline),
              header.number_of.begin());
  call.headers.resize(static_cast<std::size_t>(world()));
  call.headers[index_of(rank())] = header;
  std::vector<std::span<std::byte>> targets;
  for (CallHeader& theirs : call.headers) {
    targets.push_back(std::as_writable_bytes(std::span(&theirs, 1)));
  }
  SHARDLIGHT_TRY_STATUS(settled(
      call.operation, group_.share(std::as_bytes(std::span(&call.header, 1)), targets, call.call)));
  // All ranks find it, each by itself.
  if (std::string what = difference(call.headers, rank(), units_); !what.empty()) {
    return fail(call.operation,
                {.by = rank(), .call = comm::text_of(call.operation), .what = std::move(what)});
  }
  return share_numbers(call, numbers);
}

Status C10dTransport::share_numbers(Collective& call, std::span<const std::int64_t> numbers) {
  std::vector<std::span<std::byte>> targets;
  bool more = false;
  for (const CallHeader& header : call.headers) {
    const auto first = header.number_of.begin();
    const std::size_t inlined = std::min<std::size_t>(header.numbers, CallHeader::kNumbersInline);
    call.numbers.emplace_back(first, first + static_cast<std::ptrdiff_t>(inlined));
    call.numbers.back().resize(header.numbers);
    targets.push_back(std::as_writable_bytes(std::span(call.numbers.back()).subspan(inlined)));
    more = more || header.numbers > inlined;
  }
  if (!more) return {};
  const std::size_t inlined = std::min(numbers.size(), CallHeader::kNumbersInline);
  std::ranges::copy(numbers, call.numbers[index_of(rank())].begin());
  return settled(call.operation,
                 group_.share(std::as_bytes(numbers.subspan(inlined)), targets, call.call));
}

comm::TrafficCount C10dTransport::traffic() const {
  return {.gathered = Bytes(bytes_gathered_.load()), .reduced = Bytes(bytes_reduced_.load())};
}

std::string C10dTransport::rank_table() const { return board_->table(); }

std::span<std::byte> C10dTransport::shard(UnitId unit) {
  const UnitSpec& spec = units_[unit];
  const Bytes each = layout::bytes_per_element(spec.dtype);
  const std::int64_t begin = spec.whole ? (each * spec.slice_begin(rank()).value()).value() : 0;
  const std::int64_t bytes = (each * spec.slices[index_of(rank())].value()).value();
  return {memory_.data() + owned_[unit].memory + begin, static_cast<std::size_t>(bytes)};
}

std::span<std::byte> C10dTransport::whole(UnitId unit) {
  if (unit >= units_.size() || !units_[unit].whole) return {};
  return {memory_.data() + owned_[unit].memory,
          static_cast<std::size_t>(units_[unit].bytes().value())};
}

Status C10dTransport::publish(UnitId unit, std::int64_t version) {
  SHARDLIGHT_TRY_STATUS(comm::check_unit(units_, unit));
  SHARDLIGHT_TRY_STATUS(check_alive(operation(OperationKind::kPublish, unit, Bytes(0))));
  const std::scoped_lock lock(calls_mutex_);
  owned_[unit].published = std::max(owned_[unit].published, version);
  return {};
}

Status C10dTransport::share_slices(const Collective& call, UnitId unit,
                                   std::span<const std::byte> own, std::span<std::byte> target,
                                   std::int64_t each) {
  const UnitSpec& spec = units_[unit];
  std::vector<std::span<std::byte>> targets;
  std::size_t begin = 0;
  for (const Count slice : spec.slices) {
    const auto bytes = static_cast<std::size_t>(each * slice.value());
    targets.push_back(target.subspan(begin, bytes));
    begin += bytes;
  }
  SHARDLIGHT_TRY_STATUS(settled(call.operation, group_.share(own, targets, call.call)));
  const std::span<std::byte> place = targets[index_of(rank())];
  if (place.data() != own.data()) {
    comm::copy_bytes(place.data(), own.data(), size_of(own.size()).value());
  }
  bytes_gathered_ += size_of(target.size() - own.size()).value();
  return {};
}

Status C10dTransport::gather(UnitId unit, std::int64_t version, std::span<std::byte> target,
                             Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_unit(units_, unit));
  const UnitSpec& spec = units_[unit];
  SHARDLIGHT_TRY_STATUS(comm::check_target(spec, target));
  const std::scoped_lock lock(calls_mutex_);
  CallHeader header;
  header.unit = static_cast<std::uint32_t>(unit + 1);
  header.version = version;
  header.published = owned_[unit].published;
  Collective call =
      collective(operation(OperationKind::kGather, unit, spec.bytes()), deadline, header);
  SHARDLIGHT_TRY_STATUS(begin(call));
  for (std::size_t owner = 0; owner < call.headers.size(); ++owner) {
    if (spec.slices[owner] == Count(0) || call.headers[owner].published >= version) continue;
    return fail(
        call.operation,
        {.by = rank(),
         .call = comm::text_of(call.operation),
         .what = fmt::format("rank {} gathers version {} before it has published it; it has "
                             "version {}",
                             owner, version, call.headers[owner].published)});
  }
  return share_slices(call, unit, shard(unit), target,
                      layout::bytes_per_element(spec.dtype).value());
}

Result<std::span<const std::byte>> C10dTransport::view(UnitId unit, std::int64_t /*version*/,
                                                       Deadline /*deadline*/) {
  SHARDLIGHT_TRY_STATUS(comm::check_unit(units_, unit));
  SHARDLIGHT_TRY_STATUS(check_alive(operation(OperationKind::kGather, unit, units_[unit].bytes())));
  return std::span<const std::byte>();
}

Status C10dTransport::all_reduce(std::span<double> values, comm::Combine combine,
                                 Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_all_reduce(values));
  const std::scoped_lock lock(calls_mutex_);
  CallHeader header;
  header.combine = static_cast<std::uint8_t>(combine);
  Collective call = collective(
      {.kind = OperationKind::kAllReduce, .bytes = size_of(values.size_bytes())}, deadline, header);
  std::vector<std::int64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<std::int64_t>(value));
  SHARDLIGHT_TRY_STATUS(begin(call, bits));
  std::vector<double> theirs(values.size());
  for (std::size_t rank = 0; rank < call.numbers.size(); ++rank) {
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      theirs[i] = std::bit_cast<double>(call.numbers[rank][i]);
    }
    if (rank == 0) {
      std::ranges::copy(theirs, values.begin());
    } else {
      comm::combine_into(values, theirs, combine);
    }
  }
  return {};
}

Status C10dTransport::barrier(Deadline deadline) {
  const std::scoped_lock lock(calls_mutex_);
  Collective call = collective({.kind = OperationKind::kBarrier}, deadline, {});
  return begin(call);
}

Status C10dTransport::broadcast(std::span<std::byte> bytes, Rank root, Deadline deadline) {
  SHARDLIGHT_TRY_STATUS(comm::check_rank("root", root, world()));
  const std::scoped_lock lock(calls_mutex_);
  CallHeader header;
  header.root = static_cast<std::int32_t>(root.value());
  Collective call =
      collective({.kind = OperationKind::kBroadcast, .bytes = size_of(bytes.size()), .peer = root},
                 deadline, header);
  SHARDLIGHT_TRY_STATUS(begin(call));
  std::vector<std::span<std::byte>> targets(static_cast<std::size_t>(world()));
  targets[index_of(root)] = bytes;
  const auto own =
      root == rank() ? std::span<const std::byte>(bytes) : std::span<const std::byte>();
  return settled(call.operation, group_.share(own, targets, call.call));
}

}  // namespace shardlight::engine
