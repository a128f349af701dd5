#include "shardlight/comm/launch/launch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

#include "shardlight/comm/deadline.h"
#include "shardlight/comm/launch/line_prefixer.h"
#include "shardlight/comm/launch/rank_process.h"

namespace shardlight::comm {
namespace {

// From asking the others to end to making them, after one has died.
constexpr Seconds kGrace{0.5};
constexpr std::int64_t kMaxRanks = 1024;

std::string random_job() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = static_cast<std::uint64_t>(Deadline::Clock::now().time_since_epoch().count());
  }
  return fmt::format("launch.{}.{:016x}", ::getpid(), bits);
}

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(to, text.data(), text.size());
    if (written <= 0) return;  // nobody reads it any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Each rank's share of the cores that this process may use.
std::int64_t threads_of_a_rank(std::int64_t ranks) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max<std::int64_t>(1, CPU_COUNT(&allowed) / ranks);
}

// SIGINT, SIGTERM and SIGCHLD as something to poll; as before once it is destroyed.
class Signals {
 public:
  Signals() {
    sigset_t ours;
    sigemptyset(&ours);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&ours, signal);
    ::sigprocmask(SIG_BLOCK, &ours, &before_);
    descriptor_ = Descriptor(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals(Signals&&) = delete;
  Signals& operator=(const Signals&) = delete;
  Signals& operator=(Signals&&) = delete;

  int descriptor() const { return descriptor_.get(); }
  std::optional<int> next() const {
    signalfd_siginfo info{};
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t before_{};
  Descriptor descriptor_;
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options) {
    // Children of a rank that dies become ours, and so can be ended.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  // Whatever happens, nothing of the job is left.
  ~Launcher() {
    for (const RankProcess& rank : ranks_) signal_rank(rank, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  Launcher(const Launcher&) = delete;
  Launcher(Launcher&&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  Launcher& operator=(Launcher&&) = delete;

  Result<LaunchEnd> run() {
    const std::string job = random_job();
    for (std::int64_t rank = 0; rank < options_.ranks; ++rank) {
      RankStart start{.rank = rank, .world = options_.ranks, .job = job};
      start.command = options_.command;
      start.threads = threads_of_a_rank(options_.ranks);
      start.piped = options_.output == RankOutput::kPrefixed;
      if (options_.output == RankOutput::kFiles) {
        start.file = fmt::format("{}/rank{}.log", options_.folder, rank);
      }
      SHARDLIGHT_TRY(RankProcess process, start_rank(start));
      ranks_.push_back(std::move(process));
      prefixers_.push_back(
          {LinePrefixer(fmt::format("[{}] ", rank)), LinePrefixer(fmt::format("[{}] ", rank))});
    }
    while (running() > 0) look_once();
    for (const RankProcess& rank : ranks_) signal_rank(rank, SIGKILL);  // what it left running
    show_rest();
    return end_;
  }

 private:
  std::int64_t running() const {
    std::int64_t count = 0;
    for (const RankProcess& rank : ranks_) count += rank.process > 0 ? 1 : 0;
    return count;
  }

  void look_once() {
    std::vector<pollfd> polled = {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const RankProcess& rank : ranks_) {
      for (const Descriptor& pipe : rank.pipes) {
        polled.push_back({.fd = pipe.get(), .events = POLLIN, .revents = 0});
      }
    }
    ::poll(polled.data(), polled.size(), milliseconds_to_force());
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) show((i - 1) / 2, (i - 1) % 2);
    }
    while (const auto signal = signals_.next()) {
      if (*signal == SIGCHLD) continue;
      for (const RankProcess& rank : ranks_) signal_rank(rank, *signal);
    }
    reap();
    if (force_at_ && force_at_->passed()) {
      for (const RankProcess& rank : ranks_) signal_rank(rank, SIGKILL);
    }
  }

  int milliseconds_to_force() const {
    if (!force_at_) return -1;
    const double left = force_at_->left().count() * 1e3;
    return left > 0 ? static_cast<int>(left) + 1 : 10;
  }

  void reap() {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      for (RankProcess& rank : ranks_) {
        if (rank.process != ended) continue;
        rank.process = -1;
        if (status != 0 && end_.text.empty()) first_failed(rank.rank, status);
      }
    }
  }

  void first_failed(std::int64_t rank, int status) {
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const char* name = ::sigabbrev_np(signal);
      end_ = {.exit_code = 128 + signal,
              .text = fmt::format("rank {} died of SIG{}", rank,
                                  name != nullptr ? name : std::to_string(signal))};
    } else {
      const int code = WEXITSTATUS(status);
      end_ = {.exit_code = code, .text = fmt::format("rank {} exited with code {}", rank, code)};
    }
    for (const RankProcess& other : ranks_) signal_rank(other, SIGTERM);
    force_at_ = Deadline(kGrace);
  }

  // One read of one pipe; false at its end.
  bool show(std::size_t index, std::size_t which) {
    std::array<char, 65'536> piece{};
    Descriptor& pipe = ranks_[index].pipes[which];
    const ssize_t got = ::read(pipe.get(), piece.data(), piece.size());
    const int to = which == 0 ? STDOUT_FILENO : STDERR_FILENO;
    if (got > 0) {
      write_all(to, prefixers_[index][which].take({piece.data(), static_cast<std::size_t>(got)}));
      return true;
    }
    write_all(to, prefixers_[index][which].rest());
    pipe = Descriptor();
    return false;
  }

  // Nobody of the job runs any more, so every pipe has an end.
  void show_rest() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      for (std::size_t which = 0; which < 2; ++which) {
        while (ranks_[i].pipes[which] && show(i, which)) {
        }
      }
    }
  }

  const LaunchOptions& options_;
  Signals signals_;
  std::vector<RankProcess> ranks_;
  std::vector<std::array<LinePrefixer, 2>> prefixers_;
  std::optional<Deadline> force_at_;
  LaunchEnd end_;
};

}  // namespace

Result<LaunchEnd> launch_ranks(const LaunchOptions& options) {
  if (options.command.empty()) return user_error("program", "", "what to run, after --");
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return user_error("--ranks", fmt::to_string(options.ranks), fmt::format("1 to {}", kMaxRanks));
  }
  if (options.output == RankOutput::kFiles) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    if (error) return user_error("--output", options.folder, error.message());
  }
  return Launcher(options).run();
}

}  // namespace shardlight::comm
