#include "shardlight/comm/shm/rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shardlight/comm/shm/local_socket.h"
#include "shardlight/comm/shm/packet.h"

namespace shardlight::comm {
namespace {

// Nothing tells that an address has come to life; so it is tried this often.
constexpr int kRetryMilliseconds = 2;
constexpr int kPollMilliseconds = 1000;

Failure failure(Rank rank, const std::string& detail) {
  return Failure(
      Error::environment({.rank = rank, .operation = "connect"}, detail, Unusable::kCommunicator));
}

// Somebody who has connected; a rank once its hello has come.
struct Guest {
  Descriptor socket;
  Descriptor process;
  pid_t number = 0;
  bool known = false;
  Rank rank;
};

class Host {
 public:
  Host(const ShmOptions& options, const SharedLayout& layout, const Deadline& deadline)
      : options_(options), layout_(layout), deadline_(deadline) {}

  Result<Meeting> run(Descriptor listener) {
    listener_ = std::move(listener);
    Status met = gather_ranks();
    listener_ = Descriptor();  // before any answer: whoever comes now comes to the next meeting
    Result<Meeting> meeting = met ? prepared() : failure_of(std::move(met));
    answer_all(meeting);
    return meeting;
  }

 private:
  std::int64_t known() const {
    return std::count_if(guests_.begin(), guests_.end(), [](const Guest& g) { return g.known; });
  }

  Status gather_ranks() {
    while (known() < options_.world - 1) {
      if (deadline_.passed()) return late();
      std::vector<pollfd> polled = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const Guest& guest : guests_) {
        polled.push_back({.fd = guest.socket.get(), .events = POLLIN, .revents = 0});
      }
      ::poll(polled.data(), polled.size(), poll_milliseconds(deadline_, kPollMilliseconds));
      for (std::size_t i = guests_.size(); i-- > 0;) {
        if (polled[i + 1].revents != 0) SHARDLIGHT_TRY_STATUS(hear(i));
      }
      if (polled[0].revents != 0) let_in();
    }
    return {};
  }

  void let_in() {
    Guest guest{.socket = accept_from(listener_)};
    if (!guest.socket) return;
    const auto peer = peer_of_same_user(guest.socket);
    if (!peer) return;  // another user's process is none of the job's
    guest.number = peer->pid;
    guest.process = open_process(peer->pid);
    guests_.push_back(std::move(guest));
  }

  Status hear(std::size_t index) {
    Guest& guest = guests_[index];
    const auto hello = receive_hello(guest.socket);
    if (guest.known) {
      return failure(options_.rank,
                     fmt::format("rank {} (process {}) died or gave up before {} had come",
                                 guest.rank.value(), guest.number, missing()));
    }
    if (!hello || hello->magic != Hello::kMagic) {
      guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(index));
      return {};
    }
    SHARDLIGHT_TRY_STATUS(check(*hello, guest));
    guest.known = true;
    guest.rank = Rank(hello->rank);
    return {};
  }

  Status check(const Hello& hello, const Guest& guest) const {
    const auto differs = [&](const std::string& what, const std::string& theirs,
                             const std::string& ours) {
      return failure(options_.rank, fmt::format("rank {} (process {}) has {} {}, rank 0 has {}",
                                                hello.rank, guest.number, what, theirs, ours));
    };
    if (hello.protocol != Hello::kProtocol) {
      return differs("protocol", fmt::to_string(hello.protocol), fmt::to_string(Hello::kProtocol));
    }
    if (hello.world != options_.world) {
      return differs("world", fmt::to_string(hello.world), fmt::to_string(options_.world));
    }
    if (hello.fingerprint != layout_.fingerprint()) {
      return differs("units of fingerprint", fmt::format("{:016x}", hello.fingerprint),
                     fmt::format("{:016x}", layout_.fingerprint()));
    }
    if (hello.rank < 0 || hello.rank >= options_.world) {
      return failure(options_.rank,
                     fmt::format("process {} claims rank {}", guest.number, hello.rank));
    }
    const auto same = [&](const Guest& other) {
      return other.known && other.rank == Rank(hello.rank);
    };
    if (hello.rank == 0 || std::any_of(guests_.begin(), guests_.end(), same)) {
      return failure(options_.rank, fmt::format("rank {} came twice, the second time as process {}",
                                                hello.rank, guest.number));
    }
    return {};
  }

  // "rank 1, 3".
  std::string missing() const {
    std::string text;
    for (std::int64_t rank = 1; rank < options_.world; ++rank) {
      const auto is = [&](const Guest& guest) { return guest.known && guest.rank == Rank(rank); };
      if (std::any_of(guests_.begin(), guests_.end(), is)) continue;
      text += fmt::format("{}{}", text.empty() ? "rank " : ", ", rank);
    }
    return text;
  }

  Status late() const {
    return failure(options_.rank, fmt::format("{} did not come within {:g} s", missing(),
                                              deadline_.limit().count()));
  }

  Result<Meeting> prepared() {
    Meeting meeting;
    SHARDLIGHT_TRY(meeting.memory, Segment::create_file(layout_.size()));
    meeting.processes.resize(static_cast<std::size_t>(options_.world));
    meeting.processes[0] = open_process(::getpid());
    for (Guest& guest : guests_) {
      if (guest.known) meeting.processes[guest.rank.value()] = std::move(guest.process);
    }
    for (std::size_t rank = 0; rank < meeting.processes.size(); ++rank) {
      if (!meeting.processes[rank]) {
        return failure(options_.rank, fmt::format("rank {} died while connecting", rank));
      }
    }
    return meeting;
  }

  // Whoever is gone by now is noticed by all through its pidfd.
  void answer_all(const Result<Meeting>& meeting) const {
    Answer answer;
    std::vector<const Descriptor*> descriptors;
    if (meeting) {
      answer.accepted = 1;
      descriptors.push_back(&meeting->memory);
      for (const Descriptor& process : meeting->processes) descriptors.push_back(&process);
    } else {
      const std::string& reason = meeting.error().detail();
      std::memcpy(answer.reason.data(), reason.data(),
                  std::min(reason.size(), answer.reason.size() - 1));
    }
    for (const Guest& guest : guests_) {
      if (!meeting || guest.known) send_answer(guest.socket, answer, descriptors);
    }
  }

  const ShmOptions& options_;
  const SharedLayout& layout_;
  const Deadline& deadline_;
  Descriptor listener_;
  std::vector<Guest> guests_;
};

// The answer to our hello.
Result<Meeting> attended(const Descriptor& socket, const ShmOptions& options,
                         const SharedLayout& layout, const Deadline& deadline) {
  const Hello hello{.rank = static_cast<std::int32_t>(options.rank.value()),
                    .world = options.world,
                    .fingerprint = layout.fingerprint()};
  const bool said = send_hello(socket, hello);
  pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
  while (said && polled.revents == 0) {
    if (deadline.passed()) {
      return failure(options.rank,
                     fmt::format("rank 0 had not met all ranks within {:g} s: some did not come",
                                 deadline.limit().count()));
    }
    ::poll(&polled, 1, poll_milliseconds(deadline, kPollMilliseconds));
  }
  std::vector<Descriptor> descriptors;
  const auto answer = receive_answer(socket, descriptors);
  if (!answer) return failure(options.rank, "rank 0 died or gave up connecting");
  if (answer->accepted == 0) {
    return failure(options.rank, std::string("refused by rank 0: ") + answer->reason.data());
  }
  if (descriptors.size() != static_cast<std::size_t>(options.world) + 1) {
    return failure(options.rank, "rank 0 sent too few file descriptors; too many are open here");
  }
  Meeting meeting{.memory = std::move(descriptors.front())};
  for (std::size_t i = 1; i < descriptors.size(); ++i) {
    meeting.processes.push_back(std::move(descriptors[i]));
  }
  return meeting;
}

}  // namespace

Result<Meeting> host_meeting(const ShmOptions& options, const SharedLayout& layout,
                             const Deadline& deadline) {
  const LocalAddress address = address_of_job(options.job);
  while (true) {
    Descriptor listener = listen_at(address);
    if (listener) return Host(options, layout, deadline).run(std::move(listener));
    if (errno != EADDRINUSE) {
      return failure(options.rank, std::string("listening: ") + std::strerror(errno));
    }
    // Another rank 0 of this job. It learns of us by our hello, and tells both of us.
    const Descriptor socket = connect_to(address);
    if (socket) return attended(socket, options, layout, deadline);
    if (deadline.passed()) {
      return failure(options.rank, fmt::format("the job name '{}' is taken", options.job));
    }
    ::poll(nullptr, 0, kRetryMilliseconds);
  }
}

Result<Meeting> join_meeting(const ShmOptions& options, const SharedLayout& layout,
                             const Deadline& deadline) {
  const LocalAddress address = address_of_job(options.job);
  while (true) {
    const Descriptor socket = connect_to(address);
    if (socket && !peer_of_same_user(socket)) {
      return failure(options.rank, "the process that listens belongs to another user");
    }
    if (socket) return attended(socket, options, layout, deadline);
    if (errno != ECONNREFUSED && errno != EAGAIN) {
      return failure(options.rank, std::string("connecting: ") + std::strerror(errno));
    }
    if (deadline.passed()) {
      return failure(options.rank,
                     fmt::format("rank 0 did not come within {:g} s", deadline.limit().count()));
    }
    ::poll(nullptr, 0, kRetryMilliseconds);
  }
}

}  // namespace shardlight::comm
