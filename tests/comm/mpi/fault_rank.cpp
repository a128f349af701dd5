// One rank of a job in which something goes wrong, for mpi_faults_test: fault_rank WHAT prints what
// this rank was told, how long after its last good round, as one line.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "shardlight/comm/mpi/mpi_world.h"
#include "tests/comm/unit_shapes.h"

namespace {

using namespace shardlight;        // NOLINT(google-build-using-namespace): a program
using namespace shardlight::comm;  // NOLINT(google-build-using-namespace)

constexpr Seconds kAmple{60};
constexpr Rank kVictim{1};
constexpr int kGoodRounds = 5;

void say(const Transport& transport, const std::string& text, Seconds since_good) {
  fmt::print("rank {} after {:.2f} s: {}\n", transport.rank().value(), since_good.count(), text);
  std::fflush(stdout);
}

Status one_round(Transport& transport, int round, Deadline deadline) {
  const UnitSpec& unit = transport.units()[0];
  std::vector<std::byte> whole(static_cast<std::size_t>(unit.bytes().value()));
  std::vector<float> gradient(static_cast<std::size_t>(unit.elements().value()));
  const GradientPart all{.elements = unit.elements(), .data = gradient.data()};
  SHARDLIGHT_TRY_STATUS(transport.publish(0, round + 1));
  SHARDLIGHT_TRY_STATUS(transport.gather(0, round + 1, whole, deadline));
  SHARDLIGHT_TRY_STATUS(transport.reduce(0, round, true, {.parts = {&all, 1}}, deadline));
  SHARDLIGHT_TRY_STATUS(transport.reduced(0, round, deadline));
  SHARDLIGHT_TRY_STATUS(transport.release(0, round));
  return transport.barrier(deadline);
}

// Rounds until something fails; the victim gives itself `signal` on the way.
int work(Transport& transport, Seconds limit, int signal) {
  std::vector<double> processes(static_cast<std::size_t>(transport.world()));
  processes[static_cast<std::size_t>(transport.rank().value())] = ::getpid();
  if (!transport.all_reduce(processes, Combine::kSum, Deadline(kAmple))) return 1;
  auto good = Deadline::Clock::now();
  for (int round = 0;; ++round) {
    if (transport.rank() == kVictim && round == kGoodRounds) ::raise(signal);
    const Status done = one_round(transport, round, Deadline(limit));
    const auto now = Deadline::Clock::now();
    if (done) {
      good = now;
      continue;
    }
    const bool stays = !transport.barrier(Deadline(limit));
    say(transport, stays ? done.error().message() : "it went on", now - good);
    // Whoever was stopped is told when it goes on.
    if (transport.rank() == Rank(0) && signal == SIGSTOP) {
      ::kill(static_cast<pid_t>(processes[kVictim.value()]), SIGCONT);
    }
    return 0;
  }
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A second in a wait, as the victim computes (that is, sleeps): what it costs the others.
int wait(Transport& transport) {
  const double begin = cpu_seconds();
  if (transport.rank() == kVictim) {
    const timespec second{.tv_sec = 1, .tv_nsec = 0};
    ::nanosleep(&second, nullptr);
  }
  const Status done = transport.barrier(Deadline(kAmple));
  say(transport, done ? "waited" : done.error().message(), Seconds(cpu_seconds() - begin));
  return 0;
}

// A good round, as ranks that may not be able to map each other's memory.
int round(Transport& transport) {
  const auto begin = Deadline::Clock::now();
  const Status done = one_round(transport, 0, Deadline(kAmple));
  say(transport, done ? "went on" : done.error().message(), Deadline::Clock::now() - begin);
  return 0;
}

// All meet, and then all but the victim want to meet again.
int miss(std::unique_ptr<Transport> first) {
  const auto units = first->units();
  if (first->rank() != kVictim) {
    const auto begin = Deadline::Clock::now();
    const auto again = connect_mpi(units, Deadline(Seconds(0.3)));
    say(*first, again ? "connected" : again.error().message(), Deadline::Clock::now() - begin);
  }
  return first->barrier(Deadline(kAmple)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::int64_t world = argc > 2 ? std::stoll(argv[2]) : 3;
  const bool differs = what == "differ" && argc > 3 && std::string(argv[3]) == "v";
  auto transport = connect_mpi({unit_of(differs ? "v" : "u", 400'000, world)}, Deadline(kAmple),
                               {.silence = Seconds(what == "kill" ? 1 : 10)});
  if (!transport) {
    fmt::print("{}\n", transport.error().message());
    return 0;
  }
  if (what == "kill") return work(**transport, kAmple, SIGKILL);
  if (what == "stop") return work(**transport, Seconds(0.5), SIGSTOP);
  if (what == "wait") return wait(**transport);
  if (what == "round") return round(**transport);
  if (what == "miss") return miss(std::move(*transport));
  return 1;
}
