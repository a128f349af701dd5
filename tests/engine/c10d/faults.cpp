// What can go wrong between ranks, one case each: what this rank is told.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "shardlight/engine/c10d/c10d_world.h"
#include "tests/comm/unit_shapes.h"
#include "tests/engine/c10d/meeting.h"
#include "tests/engine/training.h"

namespace shardlight::engine {
namespace {

using comm::Deadline;
using comm::Transport;

Deadline ample() { return Deadline(Seconds(60)); }
bool last() { return meeting().rank == Rank(meeting().world - 1); }
std::string text_of(const Status& status) { return status ? "" : status.error().message(); }

std::vector<comm::UnitSpec> two_units() {
  return {comm::unit_of("h.0", 1'000'000, meeting().world),
          comm::unit_of("h.1", 10, meeting().world)};
}

Status gather(Transport& transport, comm::UnitId unit, Deadline deadline) {
  std::vector<std::byte> whole(static_cast<std::size_t>(transport.units()[unit].bytes().value()));
  return transport.gather(unit, 0, whole, deadline);
}

Status reduce(Transport& transport, comm::UnitId unit, std::int64_t round, Deadline deadline) {
  const Count elements = transport.units()[unit].elements();
  const std::vector<float> values(static_cast<std::size_t>(elements.value()), 1.0F);
  const comm::GradientPart all{.elements = elements, .data = values.data()};
  if (auto done = transport.reduce(unit, round, true, {.parts = {&all, 1}}, deadline); !done) {
    return done;
  }
  return transport.release(unit, round);
}

// The ranks that are told tell the one that is not there when they are done.
void await_others() {
  for (std::int64_t rank = 0; rank + 1 < meeting().world; ++rank) {
    meeting().store->wait({fmt::format("told/{}", rank)}, std::chrono::seconds(60));
  }
}

std::string told(const std::string& text) {
  meeting().store->set(fmt::format("told/{}", meeting().rank.value()), "1");
  return text;
}

Status another_call_of(Transport& t) {
  return last() ? reduce(t, 1, 0, ample()) : gather(t, 0, ample());
}

std::string another_call(Transport& t) {
  if (auto done = t.barrier(ample()); !done) return text_of(done);
  const Status first = another_call_of(t);
  // It is over, for calls that wait and for those that do not.
  if (t.barrier(ample()) || t.publish(0, 1)) return "it went on";
  return text_of(first);
}

std::string another_size(Transport& t) {
  std::vector<double> values(last() ? 3 : 2);
  return text_of(t.all_reduce(values, comm::Combine::kSum, ample()));
}

std::string does_not_come(Transport& t) {
  if (last()) {
    await_others();
    return "";
  }
  return told(text_of(gather(t, 1, Deadline(Seconds(0.5)))));
}

std::string gathers_too_early(Transport& t) {
  if (!last()) {
    if (auto done = t.publish(1, 3); !done) return text_of(done);
  }
  std::vector<std::byte> whole(40);
  return text_of(t.gather(1, 3, whole, ample()));
}

// Somewhere in its calls, as soon as it has made a few.
std::string dies(Transport& t, const std::function<Status(std::int64_t)>& call, bool which) {
  std::atomic<int> calls{0};
  std::jthread killer;
  if (which) {
    killer = std::jthread([&] {
      while (calls < 3) std::this_thread::yield();
      ::kill(::getpid(), SIGKILL);
    });
  }
  for (std::int64_t round = 0; round < 100'000; ++round) {
    if (auto done = call(round); !done) return text_of(done);
    ++calls;
  }
  return "nobody died: " + t.rank_table();
}

// Over a group that a transport has, which goes on.
std::string connects_twice() {
  const auto group = meeting().new_group();
  auto first = connect_c10d(group, meeting().store, two_units(), ample());
  if (!first) return first.error().message();
  const auto second = connect_c10d(group, meeting().store, two_units(), ample());
  if (auto done = (*first)->barrier(ample()); !done) return text_of(done);
  return second ? "two transports over one group" : second.error().message();
}

// One of two groups that have a store in common; what goes on in each is told from the other's.
std::string exchanges_in_a_subgroup(char group) {
  auto made = connect(two_units(), ample());
  if (!made) return made.error().message();
  Transport& t = **made;
  for (std::byte& byte : t.shard(1)) byte = std::byte(group);
  if (auto done = t.publish(1, 1); !done) return text_of(done);
  std::vector<std::byte> whole(40);
  if (auto done = t.gather(1, 1, whole, ample()); !done) return text_of(done);
  // By the store and by the group.
  std::vector<std::byte> message(100'000, last() ? std::byte(0) : std::byte(group));
  if (auto done = last() ? t.receive(message, Rank(0), ample()) : t.send(message, Rank(1), ample());
      !done) {
    return text_of(done);
  }
  whole.insert(whole.end(), message.begin(), message.end());
  const bool own = std::ranges::all_of(whole, [&](std::byte b) { return b == std::byte(group); });
  return own ? "" : "bytes of the other group";
}

// One rank alone has a user error; then all try again over the same group.
std::string tries_again() {
  const auto group = meeting().new_group();
  auto units = two_units();
  if (last()) units[1].slices[0] = Count(-1);
  const auto first = connect_c10d(group, meeting().store, units, ample());
  const auto second = connect_c10d(group, meeting().store, two_units(), ample());
  if (!second) return "the second time: " + second.error().message();
  return first ? "negative slices" : first.error().message();
}

class BreakingStore final : public c10d::PrefixStore {
 public:
  explicit BreakingStore(c10::intrusive_ptr<c10d::Store> store)
      : PrefixStore("breaking", std::move(store)) {}
  bool check(const std::vector<std::string>& keys) override {
    if (broken) throw std::runtime_error("Broken pipe");
    return PrefixStore::check(keys);
  }
  std::atomic<bool> broken{false};
};

// A message that the store took, or will never have, must not pass for one that is on its way.
std::string messages_without_a_store() {
  const auto store = c10::make_intrusive<BreakingStore>(meeting().store);
  auto made = connect_c10d(meeting().new_group(), store, two_units(), ample());
  if (!made) return made.error().message();
  store->broken = true;
  std::array<std::byte, 8> bytes{};
  return text_of(last() ? (*made)->receive(bytes, Rank(0), ample())
                        : (*made)->send(bytes, Rank(1), ample()));
}

// The receiver of another size tells the sender, who has long sent its message.
std::string sends_after_a_failure(Transport& t) {
  std::array<std::byte, 64> bytes{};
  if (last()) return told(text_of(t.receive(std::span(bytes).first(32), Rank(0), ample())));
  if (auto sent = t.send(bytes, Rank(1), ample()); !sent) return text_of(sent);
  meeting().store->wait({"told/1"}, std::chrono::seconds(60));
  return text_of(t.send(bytes, Rank(1), ample()));
}

// A thread that waits for a message when the ranks find, in headers, that they are over.
std::string waits_for_a_message(Transport& t) {
  std::string said;
  std::jthread receiver([&] {
    std::array<std::byte, 8> bytes{};
    said = text_of(t.receive(bytes, Rank(1 - t.rank().value()), ample()));
  });
  const Status other = another_call_of(t);
  receiver.join();
  return other ? "it went on" : said;
}

std::string lanes_are_refused() {
  std::string said;
  for (const bool bucket : {false, true}) {
    Training run{.model = "mlp", .world = meeting().world};
    (bucket ? run.options.bucket_bytes : run.options.prefetch_bytes) = Bytes(1 << 20);
    const auto ranks = ranks_of_process_group(meeting().new_group(), meeting().store, Seconds(30));
    if (!ranks) return ranks.error().message();
    try {
      const Engine engine = make_engine(run, *ranks, model_of_rank(run, 0));
      return "an engine with lanes";
    } catch (const Error& error) {
      said += error.message() + "\n";
    }
  }
  return said;
}

// A mixture of experts whose ranks choose by their own data.
std::string different_experts() {
  Training run{.model = "experts", .world = meeting().world, .steps = 20};
  run.options.stage = 3;
  run.options.unit_bytes = Bytes(256);
  run.options.deadline = Seconds(20);
  const auto ranks = ranks_of_process_group(meeting().new_group(), meeting().store, Seconds(30));
  if (!ranks) return ranks.error().message();
  try {
    train_rank(run, *ranks, model_of_rank(run, meeting().rank.value()));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::string fault(const std::string& name) {
  if (name == "lanes") return lanes_are_refused();
  if (name == "experts") return different_experts();
  if (name.starts_with("subgroup ")) return exchanges_in_a_subgroup(name.back());
  if (name == "held") return connects_twice();
  if (name == "again") return tries_again();
  if (name == "store") return messages_without_a_store();
  auto units = two_units();
  if (name == "units" && last()) units[1].name = "h.2";
  if (name == "connect" && last()) {
    meeting().new_group();
    await_others();
    return "";
  }
  const Deadline deadline = name == "connect" ? Deadline(Seconds(0.5)) : ample();
  const Bytes staging(std::int64_t{name == "staging" && last() ? 1 : 4} << 20);
  auto made =
      connect_c10d(meeting().new_group(), meeting().store, units, deadline, {.staging = staging});
  if (!made) return told(made.error().message());
  Transport& t = **made;
  if (name == "call") return another_call(t);
  if (name == "size") return another_size(t);
  if (name == "absent") return does_not_come(t);
  if (name == "sender") return sends_after_a_failure(t);
  if (name == "receiver") return waits_for_a_message(t);
  if (name == "early") return gathers_too_early(t);
  const auto gathers = [&](std::int64_t) { return gather(t, 0, ample()); };
  const auto reduces = [&](std::int64_t round) { return reduce(t, 0, round, ample()); };
  if (name == "gather") return dies(t, gathers, last());
  if (name == "reduce") return dies(t, reduces, last());
  if (name == "host") return dies(t, gathers, t.rank() == Rank(0));
  return "no such case";
}

}  // namespace shardlight::engine
