#include "shardlight/cli/train/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace shardlight::cli {
namespace {

// Until one of both is readable, or has no descriptor.
void wait_for(int one, int other) {
  std::array<pollfd, 2> polled = {pollfd{.fd = one, .events = POLLIN, .revents = 0},
                                  pollfd{.fd = other, .events = POLLIN, .revents = 0}};
  while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
  }
}

bool take(int signal) {
  signalfd_siginfo info{};
  return ::read(signal, &info, sizeof info) == sizeof info;
}

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&ours_);
  sigaddset(&ours_, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ours_, &before_);
  // A shell that starts a job in the background has it ignored, and the second one must strike.
  struct sigaction strikes {};
  strikes.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &strikes, &action_before_);
  signal_ = ::signalfd(-1, &ours_, SFD_CLOEXEC | SFD_NONBLOCK);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  watcher_ = std::thread([this] { watch(); });
}

Interrupt::~Interrupt() {
  ::eventfd_write(end_, 1);
  watcher_.join();
  take(signal_);  // one that nobody looked at must not strike now
  ::close(signal_);
  ::close(end_);
  ::sigaction(SIGINT, &action_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::watch() {
  wait_for(signal_, end_);
  if (!take(signal_)) return;
  came_ = true;
  // The next one finds a thread that does not hold it back, which is enough to end the process.
  ::pthread_sigmask(SIG_UNBLOCK, &ours_, nullptr);
  wait_for(-1, end_);
  ::pthread_sigmask(SIG_BLOCK, &ours_, nullptr);
}

}  // namespace shardlight::cli
