// The UNIX sockets of a meeting: an abstract address, which vanishes with its listener, and who is
// at the other end by the kernel's word. Internal to shm/; any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>

#include "shardlight/comm/deadline.h"
#include "shardlight/comm/shared/segment.h"

namespace shardlight::comm {

struct LocalAddress {
  sockaddr_un address = {};
  socklen_t length = 0;
};

// Of this user's job `job`, by a hash, as a name may be of any length.
LocalAddress address_of_job(const std::string& job);

// Invalid where it cannot be had (errno says why).
Descriptor listen_at(const LocalAddress& address);
Descriptor connect_to(const LocalAddress& address);
Descriptor accept_from(const Descriptor& listener);

// The process at the other end, if it is of this user; the listening one, seen from a connection.
std::optional<ucred> peer_of_same_user(const Descriptor& socket);
// Readable once the process has ended.
Descriptor open_process(pid_t process);

// For poll(): whole milliseconds until the deadline, at most `limit`.
int poll_milliseconds(const Deadline& deadline, int limit);

}  // namespace shardlight::comm
