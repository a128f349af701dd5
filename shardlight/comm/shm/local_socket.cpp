#include "shardlight/comm/shm/local_socket.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "shardlight/comm/shared/shared_layout.h"
#include "shardlight/comm/text_hash.h"

namespace shardlight::comm {
namespace {

// As many as may knock before rank 0 has answered the first.
constexpr int kBacklog = kMaxSharedRanks;

Descriptor new_socket(int flags) {
  return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

const sockaddr* generic(const LocalAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.address);
}

}  // namespace

LocalAddress address_of_job(const std::string& job) {
  LocalAddress result;
  result.address.sun_family = AF_UNIX;
  // The first byte stays 0: that makes the address abstract.
  const std::string name = fmt::format("shardlight.{}.{:016x}", ::geteuid(), hash_of_text(job));
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

Descriptor listen_at(const LocalAddress& address) {
  Descriptor socket = new_socket(SOCK_NONBLOCK);
  if (!socket || ::bind(socket.get(), generic(address), address.length) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return {};
  }
  return socket;
}

Descriptor connect_to(const LocalAddress& address) {
  Descriptor socket = new_socket(SOCK_NONBLOCK);
  if (!socket || ::connect(socket.get(), generic(address), address.length) != 0) return {};
  return socket;
}

Descriptor accept_from(const Descriptor& listener) {
  return Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::optional<ucred> peer_of_same_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid == ::geteuid() ? std::optional(peer) : std::nullopt;
}

Descriptor open_process(pid_t process) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

int poll_milliseconds(const Deadline& deadline, int limit) {
  const double left = std::ceil(deadline.left().count() * 1e3);
  return static_cast<int>(std::clamp(left, 0.0, static_cast<double>(limit)));
}

}  // namespace shardlight::comm
