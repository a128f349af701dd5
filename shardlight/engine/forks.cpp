#include "shardlight/engine/forks.h"

#include <pthread.h>

#include <atomic>

namespace shardlight::engine {
namespace {

std::atomic<int>& count() {
  static std::atomic<int> forks{0};
  return forks;
}

}  // namespace

int forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++count(); });
  static_cast<void>(registered);
  return count().load(std::memory_order_relaxed);
}

}  // namespace shardlight::engine
