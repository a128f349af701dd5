#include "shardlight/comm/mpi/communication_thread.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

namespace shardlight::comm {
namespace {

using Clock = Call::Clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long it polls for more after something was done: transfers go on soon, messages may not.
constexpr microseconds kPollTransfers{1000};
constexpr microseconds kPollMessages{50};
// Not by giving the core away: on a busy machine it would come back many milliseconds later, while
// who sleeps is woken at once.
constexpr microseconds kPollEvery{10};
constexpr microseconds kShortestNap{20};
constexpr microseconds kLongestNap{200};
// Under a load that never ends, deadlines and heartbeats are still looked after.
constexpr milliseconds kTickWhileBusy{20};
// This process itself was stopped for longer than that: others are not to blame for the silence,
// and what they said meanwhile is read first.
constexpr milliseconds kGap{500};
constexpr milliseconds kReadFirst{50};
// For MPI to end, once all have said goodbye.
constexpr Seconds kFinalizeLimit{10};
constexpr Seconds kQuietLimit{2};

}  // namespace

class CommunicationThread::Loop {
 public:
  enum class State { kStarting, kRunning, kBroken, kFinalizing, kEnded };

  void main();

  void post(std::function<void()> task) {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    wake_.notify_one();
  }
  Status await_start(Deadline deadline);
  void end_and_wait();
  State state() {
    const std::scoped_lock lock(mutex_);
    return state_;
  }
  std::uint32_t next_epoch() {
    const std::scoped_lock lock(mutex_);
    return ++epochs_;
  }
  Link& link() { return *link_; }
  const Heard& heard() const { return heard_; }
  void add(const std::shared_ptr<Exchange>& exchange, Seconds silence, Seconds heartbeat);

 private:
  void set_state(State state) {
    const std::scoped_lock lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }
  bool run_tasks();
  void step();
  void dispatch(const Message& message);
  void drain(Rank from, int tag, std::int64_t size, const Chunk& chunk);
  void tick(Clock::time_point now);
  void say_alive(Clock::time_point now);
  void say_goodbye(Clock::time_point now);
  bool others_left_job(Clock::time_point now);
  void nap(Clock::time_point now);

  std::mutex mutex_;
  std::condition_variable wake_, changed_;
  std::deque<std::function<void()>> tasks_;
  State state_ = State::kStarting;
  std::optional<Error> start_error_;
  bool ending_ = false;
  std::uint32_t epochs_ = 0;

  // The thread's own.
  std::unique_ptr<Link> link_;
  Heard heard_;
  ChunkPool pool_;
  std::map<std::uint32_t, std::shared_ptr<Exchange>> exchanges_;
  std::uint32_t opened_ = 0;
  std::vector<Message> early_;  // of exchanges that are not open here yet
  Seconds silence_ = MpiOptions().silence;
  Seconds heartbeat_ = MpiOptions().heartbeat;
  Clock::time_point last_step_, last_tick_, idle_since_, next_alive_, read_first_until_;
  microseconds nap_ = kShortestNap;
  std::optional<Clock::time_point> goodbye_at_;
  bool done_ = false;
  bool finalizes_ = false;
};

void CommunicationThread::Loop::main() {
  ::prctl(PR_SET_NAME, "shardlight-mpi");
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  auto link = Link::open();
  if (!link) {
    start_error_ = link.error();
    return set_state(State::kBroken);
  }
  link_ = std::move(*link);
  last_step_ = last_tick_ = idle_since_ = next_alive_ = Clock::now();
  heard_.last.assign(static_cast<std::size_t>(link_->world()), last_step_);
  heard_.goodbye.assign(static_cast<std::size_t>(link_->world()), false);
  set_state(State::kRunning);
  while (!done_) step();
  exchanges_.clear();
  set_state(State::kFinalizing);
  if (finalizes_) link_->finalize();
  set_state(State::kEnded);
}

Status CommunicationThread::Loop::await_start(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto end = time_after(Clock::now(), deadline.left());
  changed_.wait_until(lock, end, [this] { return state_ != State::kStarting; });
  if (state_ == State::kRunning) return {};
  if (state_ == State::kBroken) return tl::unexpected(*start_error_);
  return tl::unexpected(Error::environment(
      {.rank = {}, .unit = "", .operation = "connect"},
      fmt::format("MPI was not started within {:g} s; it waits for every process of the job",
                  deadline.limit().count()),
      Unusable::kJob));
}

void CommunicationThread::Loop::end_and_wait() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  wake_.notify_one();
  if (state_ == State::kStarting) return;
  changed_.wait(lock, [this] { return state_ != State::kRunning; });
  changed_.wait_for(lock, kFinalizeLimit, [this] { return state_ != State::kFinalizing; });
}

void CommunicationThread::Loop::add(const std::shared_ptr<Exchange>& exchange, Seconds silence,
                                    Seconds heartbeat) {
  opened_ = exchange->epoch();
  silence_ = silence;
  heartbeat_ = heartbeat;
  exchanges_[opened_] = exchange;
  for (const Message& message : std::exchange(early_, {})) dispatch(message);
}

bool CommunicationThread::Loop::run_tasks() {
  std::deque<std::function<void()>> tasks;
  {
    const std::scoped_lock lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
  return !tasks.empty();
}

void CommunicationThread::Loop::step() {
  bool busy = run_tasks();
  busy = link_->poll() || busy;
  while (const auto message = link_->next_message()) {
    dispatch(*message);
    busy = true;
  }
  for (const auto& [epoch, exchange] : exchanges_) busy = exchange->work() || busy;
  const auto now = Clock::now();
  if (now - last_step_ > kGap) {
    for (auto& last : heard_.last) last += now - last_step_;
    read_first_until_ = now + kReadFirst;
  }
  last_step_ = now;
  if (now >= read_first_until_ && (!busy || now - last_tick_ > kTickWhileBusy)) tick(now);
  if (!busy) return nap(now);
  idle_since_ = now;
  nap_ = kShortestNap;
}

void CommunicationThread::Loop::nap(Clock::time_point now) {
  if (now - idle_since_ < (link_->transfers() > 0 ? kPollTransfers : kPollMessages)) {
    std::this_thread::sleep_for(kPollEvery);
    return;
  }
  std::unique_lock lock(mutex_);
  if (tasks_.empty()) wake_.wait_for(lock, nap_);
  nap_ = std::min(2 * nap_, kLongestNap);
}

void CommunicationThread::Loop::dispatch(const Message& message) {
  const MessageHeader& header = message.header;
  heard_.last[message.from.value()] = Clock::now();
  if (header.kind == MessageKind::kGoodbye) heard_.goodbye[message.from.value()] = true;
  if (header.epoch == 0) return;
  if (header.epoch > opened_) {
    if (header.kind != MessageKind::kStatus) early_.push_back(message);
    return;
  }
  const auto found = exchanges_.find(header.epoch);
  if (found != exchanges_.end()) return found->second->handle(message);
  // It is over; but whoever has set memory aside for a gradient is told, and bytes that were asked
  // for before are taken, as MPI would keep their sender waiting for good.
  if (header.kind == MessageKind::kAsk && header.source == SourceKind::kGradient &&
      header.slot < 0) {
    link_->send_bytes(message.from, header.tag, {}, [](std::size_t) {});
  }
  if (header.kind == MessageKind::kAnswer && header.answer == AnswerKind::kComing) {
    drain(message.from, header.tag, header.size, pool_.take());
  }
}

void CommunicationThread::Loop::drain(Rank from, int tag, std::int64_t size, const Chunk& chunk) {
  if (size <= 0) return;
  const std::int64_t part = std::min(kChunkBytes, size);
  link_->receive_bytes(
      from, tag, std::span(*chunk).first(static_cast<std::size_t>(part)),
      [this, from, tag, size, part, chunk](std::size_t) { drain(from, tag, size - part, chunk); });
}

void CommunicationThread::Loop::tick(Clock::time_point now) {
  last_tick_ = now;
  const auto broken = link_->take_broken();
  for (const auto& [epoch, exchange] : exchanges_) {
    if (broken) exchange->lose(*broken, "cannot be reached");
    exchange->tick(now);
  }
  bool ending = false;
  {
    const std::scoped_lock lock(mutex_);
    ending = ending_;
  }
  if (ending) {
    for (const auto& [epoch, exchange] : exchanges_) exchange->leave();
  }
  std::erase_if(exchanges_, [](const auto& entry) { return entry.second->finished(); });
  if (now >= next_alive_) say_alive(now);
  if (ending && exchanges_.empty()) say_goodbye(now);
}

// The exchanges say more to those that still listen.
void CommunicationThread::Loop::say_alive(Clock::time_point now) {
  next_alive_ = time_after(now, heartbeat_);
  for (std::int64_t rank = 0; rank < link_->world(); ++rank) {
    if (Rank(rank) != link_->rank() && !others_left_job(now)) link_->send(Rank(rank), {});
  }
}

// Whether there is nobody left to wait for.
bool CommunicationThread::Loop::others_left_job(Clock::time_point now) {
  for (std::int64_t rank = 0; rank < link_->world(); ++rank) {
    if (Rank(rank) == link_->rank() || heard_.goodbye[rank]) continue;
    if (now - heard_.last[rank] < duration_cast<Clock::duration>(silence_)) return false;
  }
  return true;
}

void CommunicationThread::Loop::say_goodbye(Clock::time_point now) {
  if (!goodbye_at_) {
    for (std::int64_t rank = 0; rank < link_->world(); ++rank) {
      if (Rank(rank) != link_->rank()) link_->send(Rank(rank), {.kind = MessageKind::kGoodbye});
    }
    goodbye_at_ = now;
    heard_.goodbye[link_->rank().value()] = true;
    return;
  }
  if (!others_left_job(now)) {
    goodbye_at_ = now;
    return;
  }
  finalizes_ = link_->quiet() && std::all_of(heard_.goodbye.begin(), heard_.goodbye.end(),
                                             [](bool said) { return said; });
  done_ = finalizes_ || now - *goodbye_at_ > kQuietLimit;
}

CommunicationThread& CommunicationThread::of_process() {
  static CommunicationThread thread;
  return thread;
}

CommunicationThread::CommunicationThread()
    : loop_(std::make_shared<Loop>()), thread_([loop = loop_] { loop->main(); }) {}

CommunicationThread::~CommunicationThread() {
  loop_->end_and_wait();
  const Loop::State state = loop_->state();
  // A thread that is caught in MPI ends with the process.
  if (state == Loop::State::kEnded || state == Loop::State::kBroken) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

Status CommunicationThread::await_start(Deadline deadline) { return loop_->await_start(deadline); }

Rank CommunicationThread::rank() const { return loop_->link().rank(); }
std::int64_t CommunicationThread::world() const { return loop_->link().world(); }
Bytes CommunicationThread::bytes_sent() const { return Bytes(loop_->link().bytes_sent()); }

void CommunicationThread::post(std::function<void()> task) { loop_->post(std::move(task)); }

void CommunicationThread::run(const std::function<void()>& task) {
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  post([&] {
    task();
    const std::scoped_lock lock(mutex);
    over = true;
    ended.notify_one();
  });
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return over; });
}

Result<std::shared_ptr<Exchange>> CommunicationThread::open(std::vector<UnitSpec> units,
                                                            const MpiOptions& options) {
  SHARDLIGHT_TRY(auto exchange, Exchange::make(loop_->link(), loop_->heard(), loop_->next_epoch(),
                                               std::move(units), options));
  run([&] { loop_->add(exchange, options.silence, options.heartbeat); });
  return exchange;
}

}  // namespace shardlight::comm
