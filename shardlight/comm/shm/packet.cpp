#include "shardlight/comm/shm/packet.h"

#include <sys/socket.h>

#include <cstring>

namespace shardlight::comm {
namespace {

// As many as the kernel passes in one message (SCM_MAX_FD).
constexpr std::size_t kMaxDescriptors = 253;

}  // namespace

bool send_hello(const Descriptor& socket, const Hello& hello) {
  return ::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

bool send_answer(const Descriptor& socket, const Answer& answer,
                 const std::vector<const Descriptor*>& descriptors) {
  Answer copy = answer;
  iovec part{.iov_base = &copy, .iov_len = sizeof copy};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const std::size_t bytes = descriptors.size() * sizeof(int);
  std::vector<char> control(descriptors.empty() ? 0 : CMSG_SPACE(bytes));
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::vector<int> numbers;
    for (const Descriptor* descriptor : descriptors) numbers.push_back(descriptor->get());
    std::memcpy(CMSG_DATA(header), numbers.data(), bytes);
  }
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL) == sizeof copy;
}

std::optional<Hello> receive_hello(const Descriptor& socket) {
  Hello hello;
  if (::recv(socket.get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_TRUNC) != sizeof hello) {
    return std::nullopt;
  }
  return hello;
}

std::optional<Answer> receive_answer(const Descriptor& socket,
                                     std::vector<Descriptor>& descriptors) {
  Answer answer;
  iovec part{.iov_base = &answer, .iov_len = sizeof answer};
  std::vector<char> control(CMSG_SPACE(kMaxDescriptors * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t received = ::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0) return std::nullopt;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::vector<int> numbers((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(header), numbers.size() * sizeof(int));
    for (const int number : numbers) descriptors.emplace_back(number);
  }
  const bool whole =
      received == sizeof answer && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  answer.reason.back() = 0;
  return whole ? std::optional(answer) : std::nullopt;
}

}  // namespace shardlight::comm
