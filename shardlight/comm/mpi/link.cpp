#include "shardlight/comm/mpi/link.h"

#include <algorithm>
#include <utility>

namespace shardlight::comm {
namespace {

constexpr int kMessageTag = 1;
constexpr int kFirstTag = 16;
constexpr int kTags = 1 << 30;
// More messages than this are taken in the next round, so that no flood keeps transfers waiting.
constexpr int kProbesAtOnce = 64;

int number(Rank rank) { return static_cast<int>(rank.value()); }

Failure mpi_failure(const char* what) {
  return Failure(
      Error::environment({.rank = {}, .unit = "", .operation = "connect"}, what, Unusable::kJob));
}

}  // namespace

Result<std::unique_ptr<Link>> Link::open() {
  auto link = std::unique_ptr<Link>(new Link());
  int initialized = 0;
  int provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  link->ours_ = initialized == 0;
  if (link->ours_) {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      return mpi_failure("MPI_Init_thread failed");
    }
  } else {
    // Somebody else's thread makes calls too.
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
      return mpi_failure("MPI was initialized elsewhere, without MPI_THREAD_MULTIPLE");
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  int world = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  link->rank_ = Rank(rank);
  link->world_ = world;
  link->incoming_.resize(static_cast<std::size_t>(world));
  return link;
}

void Link::track(MPI_Request request, Pending pending) {
  if (pending.transfer) ++transfers_;
  requests_.push_back(request);
  pending_.push_back(std::move(pending));
}

void Link::send(Rank to, const MessageHeader& header, std::span<const std::byte> payload) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof(header) + payload.size());
  std::memcpy(bytes->data(), &header, sizeof(header));
  if (!payload.empty()) {
    std::memcpy(bytes->data() + sizeof(header), payload.data(), payload.size());
  }
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, number(to), kMessageTag,
                MPI_COMM_WORLD, &request) != MPI_SUCCESS) {
    broken_ = to;
    return;
  }
  bytes_sent_ += static_cast<std::int64_t>(bytes->size());
  track(request, {.peer = to, .done = [bytes](std::size_t) {}});
}

void Link::send_bytes(Rank to, int tag, std::span<const std::byte> bytes, Done done) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Issend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, number(to), tag,
                 MPI_COMM_WORLD, &request) != MPI_SUCCESS) {
    broken_ = to;
    return done(0);
  }
  bytes_sent_ += static_cast<std::int64_t>(bytes.size());
  track(request, {.peer = to, .transfer = true, .done = std::move(done)});
}

void Link::receive_bytes(Rank from, int tag, std::span<std::byte> bytes, Done done) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, number(from), tag,
                MPI_COMM_WORLD, &request) != MPI_SUCCESS) {
    broken_ = from;
    return done(0);
  }
  track(request, {.peer = from, .transfer = true, .receives = true, .done = std::move(done)});
}

int Link::new_tag() {
  tag_ = (tag_ + 1) % kTags;
  return kFirstTag + tag_;
}

bool Link::poll() {
  probe();
  if (requests_.empty()) return false;
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  // Failed requests are told apart by their statuses.
  MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, completed_.data(),
               statuses_.data());
  if (count == MPI_UNDEFINED || count == 0) return false;
  std::vector<std::pair<Pending, MPI_Status>> over;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
    over.emplace_back(std::move(pending_[index]), statuses_[static_cast<std::size_t>(i)]);
    requests_[index] = MPI_REQUEST_NULL;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (kept != i) {
      requests_[kept] = requests_[i];
      pending_[kept] = std::move(pending_[i]);
    }
    ++kept;
  }
  requests_.resize(kept);
  pending_.resize(kept);
  for (auto& [pending, status] : over) {
    if (pending.transfer) --transfers_;
    const bool good = status.MPI_ERROR == MPI_SUCCESS || status.MPI_ERROR == MPI_ERR_PENDING;
    int bytes = 0;
    if (pending.receives && good) MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (!good) broken_ = pending.peer;
    pending.done(static_cast<std::size_t>(std::max(bytes, 0)));
  }
  return true;
}

void Link::probe() {
  for (int i = 0; i < kProbesAtOnce; ++i) {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, kMessageTag, MPI_COMM_WORLD, &found, &handle, &status);
    if (found == 0) return;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    auto incoming = std::make_shared<Incoming>();
    incoming->bytes.resize(static_cast<std::size_t>(size));
    incoming_[static_cast<std::size_t>(status.MPI_SOURCE)].push_back(incoming);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Imrecv(incoming->bytes.data(), size, MPI_BYTE, &handle, &request);
    track(request, {.peer = Rank(status.MPI_SOURCE),
                    .done = [incoming](std::size_t) { incoming->complete = true; }});
  }
}

std::optional<Message> Link::next_message() {
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    const std::size_t from = (next_rank_ + i) % incoming_.size();
    auto& queue = incoming_[from];
    if (queue.empty() || !queue.front()->complete) continue;
    const std::vector<std::byte> bytes = std::move(queue.front()->bytes);
    queue.pop_front();
    next_rank_ = from + 1;
    if (bytes.size() < sizeof(MessageHeader)) continue;
    Message message{.from = Rank(static_cast<std::int64_t>(from)), .header = {}, .payload = {}};
    std::memcpy(&message.header, bytes.data(), sizeof(MessageHeader));
    message.payload.assign(bytes.begin() + sizeof(MessageHeader), bytes.end());
    return message;
  }
  return std::nullopt;
}

void Link::finalize() {
  if (ours_) MPI_Finalize();
}

}  // namespace shardlight::comm
