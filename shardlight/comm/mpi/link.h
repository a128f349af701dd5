// The calls of MPI that the exchange needs, none of which blocks but opening and closing: messages
// in order, and bytes under a tag. What is sent is copied or must stay until `done`; nothing of a
// caller outside comm/mpi is ever handed to MPI. All of it belongs to the one thread that opened
// it. Internal to comm/mpi.
#pragma once

#include <mpi.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "shardlight/base/result.h"
#include "shardlight/comm/mpi/message.h"

namespace shardlight::comm {

class Link {
 public:
  // Called by poll() when a transfer is over, with the bytes that came: less than the buffer where
  // the other side has given up.
  using Done = std::function<void(std::size_t bytes)>;

  // Starts MPI, which waits for all processes of the job to do so.
  static Result<std::unique_ptr<Link>> open();

  Rank rank() const { return rank_; }
  std::int64_t world() const { return world_; }

  void send(Rank to, const MessageHeader& header, std::span<const std::byte> payload = {});
  // In order of their coming from each rank; nothing where none is complete.
  std::optional<Message> next_message();

  // One after another under the same tag arrive in this order. At most 2^31 - 1 bytes. What is sent
  // counts as over when it is being received, so no more of it is under way than the sender wants.
  void send_bytes(Rank to, int tag, std::span<const std::byte> bytes, Done done);
  void receive_bytes(Rank from, int tag, std::span<std::byte> bytes, Done done);
  // Unique among those that this process hands out, for longer than any transfer takes.
  int new_tag();

  // Lets MPI work; whether anything was completed.
  bool poll();
  // Transfers of bytes under way; messages are not counted.
  std::size_t transfers() const { return transfers_; }
  // Whether nothing sent or awaited is left.
  bool quiet() const { return requests_.empty(); }
  // A rank that MPI said it cannot reach, once.
  std::optional<Rank> take_broken() { return std::exchange(broken_, std::nullopt); }

  // Handed to MPI since it was started, messages and transfers. Any thread.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  // Ends MPI, which waits for all processes to do so. Nothing else may be called afterwards.
  void finalize();

 private:
  struct Pending {
    Rank peer;
    bool transfer = false;
    bool receives = false;
    Done done;
  };
  // A message whose payload is still on its way keeps the later ones of its rank waiting.
  struct Incoming {
    bool complete = false;
    std::vector<std::byte> bytes;
  };

  Link() = default;
  void track(MPI_Request request, Pending pending);
  void finish(std::size_t index, const MPI_Status& status);
  void probe();

  Rank rank_;
  std::int64_t world_ = 1;
  bool ours_ = true;  // MPI was started here
  int tag_ = 0;
  std::atomic<std::int64_t> bytes_sent_{0};
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;  // of the request at the same index
  std::size_t transfers_ = 0;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::deque<std::shared_ptr<Incoming>>> incoming_;  // by rank
  std::size_t next_rank_ = 0;                                    // that is looked at first
  std::optional<Rank> broken_;
};

}  // namespace shardlight::comm
