// One transport's state on the communication thread: what this rank offers to others, what it waits
// for, and the sums it owns. Requests and answers are messages; whoever waits has a Call. Nothing
// here blocks.
//
// All of it belongs to the communication thread, but for what says "any thread". It lives on after
// its transport, until every rank has left: the others may still read. Internal to comm/mpi.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "shardlight/comm/mpi/call.h"
#include "shardlight/comm/mpi/chunk_pool.h"
#include "shardlight/comm/mpi/link.h"
#include "shardlight/comm/mpi/mpi_world.h"
#include "shardlight/comm/mpi/rank_memory.h"
#include "shardlight/comm/slice_sum.h"

namespace shardlight::comm {

// When each rank was last heard of, by any message.
struct Heard {
  std::vector<Call::Clock::time_point> last;
  std::vector<bool> goodbye;
};

// What a rank does, as it tells the others at every heartbeat.
struct StatusRecord {
  struct ShownCall {
    std::uint32_t kind = 0;  // OperationKind
    std::uint32_t unit = 0;  // index + 1, or 0
    std::int32_t awaited = -1;
    float seconds = 0;
    std::array<char, 16> lane{};  // as much of its name; a 0 after a shorter one
  };
  std::int64_t collectives = 0;    // barriers and all-reduces it has entered
  std::int32_t owner_awaits = -1;  // whose contribution its sums wait for
  std::uint32_t calls_shown = 0;
  std::array<ShownCall, 4> calls{};
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = Call::Clock;

  static Result<std::shared_ptr<Exchange>> make(Link& link, const Heard& heard, std::uint32_t epoch,
                                                std::vector<UnitSpec> units,
                                                const MpiOptions& options);

  // Any thread.
  const std::vector<UnitSpec>& units() const { return units_; }
  Rank rank() const { return rank_; }
  std::int64_t world() const { return world_; }
  std::uint32_t epoch() const { return epoch_; }
  const OwnMemory& memory() const { return memory_; }
  Status check_alive(const Operation& operation) const;
  TrafficCount traffic() const;
  void count_gathered(std::int64_t bytes) { bytes_gathered_ += bytes; }
  // Other ranks' memory, from now on; read until all have left.
  void use(std::shared_ptr<const PeerMemories> peers);
  // What each rank offers to those of its host; once connected.
  const std::vector<MemoryOffer>& offers() const { return offers_; }

  // Each finishes the call, now or later.
  void connect(Call& call);
  // The slices of the owners `by_message`, copied to `target`; of those `by_memory`, which the
  // caller copies himself, nothing but that they are published.
  void gather(Call& call, UnitId unit, std::int64_t version, std::span<std::byte> target,
              const std::vector<Rank>& by_message, const std::vector<Rank>& by_memory);
  void reduce(Call& call, UnitId unit, std::int64_t round, bool fresh, const Gradient& gradient);
  void await_sum(Call& call, UnitId unit, std::int64_t round);  // this rank's slice
  void gather_sum(Call& call, UnitId unit, std::int64_t round, const SumSpan& target);
  void all_reduce(Call& call, std::span<double> values, Combine combine);  // barrier: of nothing
  void broadcast(Call& call, std::span<std::byte> bytes, Rank root);
  void send(Call& call, std::span<const std::byte> bytes, Rank to);
  void receive(Call& call, std::span<std::byte> bytes, Rank from);
  void published(UnitId unit);  // whoever waits for it is told
  void release(UnitId unit, std::int64_t round);
  SumSpan own_sum(UnitId unit);
  std::string rank_table() const;

  void handle(const Message& message);
  // Adds a few chunks; whether there was one.
  bool work();
  void tick(Clock::time_point now);
  void lose(Rank rank, const std::string& what);
  // The transport is gone.
  void leave();
  // Nobody will ask anything of it any more.
  bool finished() const;

 private:
  struct Ask {  // of this rank
    Call* call = nullptr;
    Rank owner;
    std::byte* target = nullptr;
    std::int64_t size = 0;
    SourceKind source = SourceKind::kShard;
  };
  struct Asked {  // of another rank, not answered yet
    Rank from;
    MessageHeader header;
  };
  struct Pull;     // bytes that come
  struct Push;     // bytes that go
  struct Giving {  // this rank's gradient, while its reduce runs
    Call* call = nullptr;
    std::int64_t round = 0;
    std::vector<GradientPart> parts;
    layout::DType dtype = layout::DType::kFloat32;
    std::map<std::int64_t, std::int64_t> elements_left;  // by owner
  };
  struct Held {
    std::span<const std::byte> bytes;
    Chunk buffer;  // where they are, or
    std::int32_t slot = -1;
  };
  struct Contribution {  // a rank's gradient, within the slice
    std::int64_t round = 0;
    bool fresh = false;
    bool passes = false;
    bool admitted = false;
    layout::DType dtype = layout::DType::kFloat32;
    std::vector<GradientPart> parts;  // with data where it is this rank's own
    Call* call = nullptr;             // this rank's own
    std::int64_t elements = 0;
    std::int64_t next_chunk = 0;  // to ask for
    std::int64_t chunks_added = 0;
    int under_way = 0;
    int slots = 0;                        // of its rank's outbox that it has
    std::map<std::int64_t, Held> chunks;  // that have come and are not added
  };
  struct Owned {  // a unit of which this rank owns a slice
    explicit Owned(SliceSum of) : sum(std::move(of)) {}
    SliceSum sum;
    std::int64_t round = 0;  // the one that is added, or begins next
    bool begun = false;
    std::vector<std::int64_t> released;                   // by rank: rounds
    std::vector<std::optional<Contribution>> current;     // by rank, of `round`
    std::vector<std::optional<Contribution>> next;        // by rank, of the round after it
    std::deque<std::int64_t> chunks_ready;                // that may take their next rank
    std::vector<std::pair<Call*, std::int64_t>> waiters;  // for the sum of a round
    bool queued = false;
  };
  struct Outgoing {  // a message to another rank
    std::int64_t number = 0;
    std::int64_t size = 0;
    std::shared_ptr<std::vector<std::byte>> copy;  // or
    std::shared_ptr<Lent> lent;
    Call* call = nullptr;
  };
  struct Broadcast {
    Call* call = nullptr;
    std::shared_ptr<Lent> lent;
    std::int64_t size = 0;
  };
  struct Arrivals {  // at a barrier or all-reduce, on rank 0
    std::vector<std::optional<std::vector<double>>> values;  // by rank
    std::int64_t count = 0;
    bool maximum = false;
  };

  Exchange(Link& link, const Heard& heard, std::uint32_t epoch, std::vector<UnitSpec> units,
           const MpiOptions& options, OwnMemory memory);

  MessageHeader header(MessageKind kind) const { return {.kind = kind, .epoch = epoch_}; }
  void tell_all(const MessageHeader& header, std::span<const std::byte> payload = {});
  std::vector<Rank> owners(UnitId unit) const;
  bool begin(Call& call);  // false: it has ended already
  void settle(Call& call);
  void end(Call& call, Status status);

  // exchange.cpp
  void on_hello(Rank from, std::uint64_t fingerprint, const MemoryOffer& offer);
  void on_failed(const Message& message);
  void check_deadlines();
  void check_silence(Clock::time_point now);
  void check_left();
  void send_status(Clock::time_point now);
  StatusRecord own_status() const;
  std::optional<Rank> awaited_by(const Call& call) const;
  std::optional<Rank> awaited_by(Rank rank) const;
  Rank culprit_behind(Rank awaited) const;
  bool silent(Rank rank) const;
  std::string activity(Rank rank) const;
  // `call`, if any, gets `detail` for an error; all others what every rank is told.
  void fail(const std::string& what, const std::string& operation, Call* call = nullptr,
            const std::string& detail = "");
  void fail_deadline(Call& call, Rank awaited);
  void end_all(Call* finder, const std::string& detail);
  Error error_of(const Operation& operation) const;
  Error error_of(const Operation& operation, const std::string& detail) const;

  // exchange_ask.cpp
  void ask(Call& call, Rank owner, SourceKind source, UnitId unit, std::int64_t number,
           std::byte* target, std::int64_t size);
  void on_ask(Rank from, const MessageHeader& header);
  void on_answer(const Message& message);
  bool answer(const Asked& asked);
  void answer_waiting(SourceKind source, std::uint32_t unit);
  void never_answer();
  void give(const Asked& asked, const std::byte* stable, std::shared_ptr<Lent> lent,
            std::shared_ptr<void> keep, std::int64_t size, std::function<void()> taken);
  void pull_more(const std::shared_ptr<Pull>& pull);
  void push_more(const std::shared_ptr<Push>& push);
  bool answer_message(const Asked& asked);

  // exchange_reduce.cpp
  void contribute(UnitId unit, Rank rank, Contribution contribution);
  void on_contribute(const Message& message);
  void on_ask_gradient(Rank owner, const MessageHeader& header);
  std::size_t fill(std::span<std::byte> target, Rank owner, const MessageHeader& asking);
  void admit(UnitId unit);
  void pull_gradient(UnitId unit, Rank rank);
  bool may_pull(const Owned& owned, const Contribution& contribution, Rank rank,
                std::int64_t bytes) const;
  void chunk_ready(UnitId unit, std::int64_t chunk);
  bool has_chunk(const Contribution& contribution, const Owned& owned, std::int64_t chunk) const;
  void add_chunk(UnitId unit, std::int64_t chunk);
  void add_to_sum(Owned& owned, const Contribution& contribution, std::int64_t chunk) const;
  void end_round(UnitId unit);
  void tell_waiters(UnitId unit);
  bool wanted(UnitId unit) const;
  std::optional<Rank> missing(UnitId unit) const;

  // exchange_slots.cpp
  bool ask_into_slot(UnitId unit, Rank rank, Contribution& contribution);
  bool awaits_slot(const Owned& owned, const Contribution& contribution, Rank rank) const;
  void fill_slot(Rank owner, const MessageHeader& asking);
  void on_slot_filled(Rank rank, const MessageHeader& answering);
  void let_go(UnitId unit, Rank rank, Contribution& contribution, std::int64_t chunk);

  // exchange_collective.cpp
  void arrive(Rank rank, std::int64_t number, std::vector<double> values, bool maximum);
  void take_result(std::int64_t number, std::span<const double> values);

  Link& link_;
  const Heard& heard_;
  std::uint32_t epoch_;
  std::vector<UnitSpec> units_;
  MpiOptions options_;
  Rank rank_;
  std::int64_t world_;
  OwnMemory memory_;
  std::vector<MemoryOffer> offers_;  // by rank
  ChunkPool pool_;

  std::uint64_t fingerprint_ = 0;
  std::vector<std::optional<std::uint64_t>> hellos_;
  std::vector<Call*> calls_;
  Clock::time_point next_heartbeat_{};
  Clock::time_point next_check_{};
  std::vector<StatusRecord> statuses_;
  std::vector<bool> left_, lost_;

  std::unordered_map<std::int64_t, Ask> asks_;
  std::int64_t last_ask_ = 0;
  std::map<std::pair<SourceKind, std::uint32_t>, std::vector<Asked>> asked_;
  std::map<std::uint32_t, std::vector<std::pair<Call*, std::int64_t>>> own_versions_;

  std::map<UnitId, Giving> giving_;
  std::vector<std::unique_ptr<Owned>> owned_;  // null: nothing of the unit
  std::deque<UnitId> busy_;
  std::int64_t reserve_used_ = 0;
  std::shared_ptr<const PeerMemories> peers_;
  std::vector<std::vector<std::int32_t>>
      free_slots_;  // by contributor; of its outbox for this rank
  std::vector<std::pair<UnitId, Rank>> starved_;

  std::int64_t collectives_ = 0;
  std::map<std::int64_t, Arrivals> arrivals_;
  Call* collective_call_ = nullptr;
  std::span<double> collective_values_;
  std::int64_t broadcasts_counted_ = 0;
  std::map<std::int64_t, Broadcast> broadcasts_;
  std::vector<std::int64_t> sent_, received_;  // messages, by rank
  std::vector<std::deque<Outgoing>> outgoing_;

  struct Failed {
    Rank by;
    std::string what;       // "rank 1 left"
    std::string operation;  // "gather of h.0"
  };
  mutable std::mutex failed_mutex_;
  std::optional<Failed> failed_;
  std::atomic<bool> has_failed_{false};
  std::atomic<std::int64_t> bytes_gathered_{0}, bytes_reduced_{0};
};

}  // namespace shardlight::comm
