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
  [[maybe_unused]] static const int kRegistered =
      pthread_atfork(nullptr, nullptr, [] { ++count(); });
  return count().load(std::memory_order_relaxed);
}

}  // namespace shardlight::engine
