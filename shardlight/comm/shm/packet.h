// What ranks say to each other while they connect: a hello to rank 0 and its answer, each one
// packet of a SOCK_SEQPACKET socket, the answer with file descriptors. Internal to shm/; any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/comm/shared/segment.h"

namespace shardlight::comm {

struct Hello {
  static constexpr std::uint64_t kMagic = 0x6c72616873686d31;  // "1mhsharl"
  static constexpr std::uint32_t kProtocol = 2;  // of this folder and of shared/: layout, meaning

  std::uint64_t magic = kMagic;
  std::uint32_t protocol = kProtocol;
  std::int32_t rank = 0;
  std::int64_t world = 0;
  std::uint64_t fingerprint = 0;  // SharedLayout's
};

struct Answer {
  std::uint32_t accepted = 0;
  std::array<char, 252> reason = {};  // where not accepted; ends with a 0
};

// False where the other side is gone.
bool send_hello(const Descriptor& socket, const Hello& hello);
bool send_answer(const Descriptor& socket, const Answer& answer,
                 const std::vector<const Descriptor*>& descriptors);

// Nothing where the other side is gone or said something else; `socket` has something to read.
std::optional<Hello> receive_hello(const Descriptor& socket);
std::optional<Answer> receive_answer(const Descriptor& socket,
                                     std::vector<Descriptor>& descriptors);

}  // namespace shardlight::comm
