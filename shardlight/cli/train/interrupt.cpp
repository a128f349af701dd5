#include "shardlight/cli/train/interrupt.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace shardlight::cli {

Interrupt::Interrupt() {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ours, &before_);
  descriptor_ = ::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

Interrupt::~Interrupt() {
  came();  // one that nobody looked at must not strike now
  if (descriptor_ >= 0) ::close(descriptor_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupt::came() {
  signalfd_siginfo info{};
  if (!came_ && ::read(descriptor_, &info, sizeof info) == sizeof info) {
    came_ = true;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  return came_;
}

}  // namespace shardlight::cli
