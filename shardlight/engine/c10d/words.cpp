#include "shardlight/engine/c10d/words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <thread>

namespace shardlight::engine {

// Runs questions one after another. A thread that hangs in one cannot be joined, so what it touches
// is its own.
class Words::Asker {
 public:
  Asker() : thread_([shared = shared_] { run(*shared); }) {}
  ~Asker() {
    // A forked child has no such thread, and the lock as it was.
    if (::getpid() != process_) {
      thread_.detach();
      return;
    }
    bool hangs = false;
    {
      const std::scoped_lock lock(shared_->mutex);
      shared_->over = true;
      shared_->waiting.clear();
      hangs = shared_->busy;
    }
    shared_->changed.notify_all();
    hangs ? thread_.detach() : thread_.join();
  }
  Asker(const Asker&) = delete;
  Asker(Asker&&) = delete;
  Asker& operator=(const Asker&) = delete;
  Asker& operator=(Asker&&) = delete;

  void submit(std::function<void()> question) {
    {
      const std::scoped_lock lock(shared_->mutex);
      shared_->waiting.push_back(std::move(question));
    }
    shared_->changed.notify_all();
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    bool busy = false;
    bool over = false;
  };

  static void run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    while (!shared.over) {
      if (shared.waiting.empty()) {
        shared.changed.wait(lock);
        continue;
      }
      std::function<void()> question = std::move(shared.waiting.front());
      shared.waiting.pop_front();
      shared.busy = true;
      lock.unlock();
      question();
      question = nullptr;
      lock.lock();
      shared.busy = false;
    }
  }

  pid_t process_ = ::getpid();
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (const auto end = line.find("] "); line.starts_with('[') && end != std::string::npos) {
    line.erase(0, end + 2);
  }
  return line;
}

Words::Words(StorePtr store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)), asker_(std::make_unique<Asker>()) {}

Words::~Words() = default;

template <class Answer>
std::optional<Answer> Words::ask(std::function<Answer(c10d::Store&)> question, Seconds limit) {
  if (!error().empty()) return std::nullopt;
  const auto task = std::make_shared<std::packaged_task<Answer()>>(
      [store = store_, asked = std::move(question)] { return asked(*store); });
  std::future<Answer> answer = task->get_future();
  asker_->submit([task] { (*task)(); });
  std::string error;
  try {
    if (answer.wait_for(limit) == std::future_status::ready) return answer.get();
    error = fmt::format("it did not answer within {:.1f} s", limit.count());
  } catch (const std::exception& thrown) {
    error = first_line(thrown.what());
  }
  const std::scoped_lock lock(mutex_);
  if (error_.empty()) error_ = std::move(error);
  return std::nullopt;
}

bool Words::set(const std::string& name, const std::string& value, Seconds limit) {
  return ask<bool>(
             [key = prefix_ + name, value](c10d::Store& store) {
               store.set(key, value);
               return true;
             },
             limit)
      .value_or(false);
}

std::optional<std::string> Words::get(const std::string& name, Seconds limit) {
  using Word = std::optional<std::string>;
  return ask<Word>(
             [key = prefix_ + name](c10d::Store& store) {
               return store.check({key}) ? Word(store.get_to_str(key)) : std::nullopt;
             },
             limit)
      .value_or(std::nullopt);
}

bool Words::has(const std::vector<std::string>& names, Seconds limit) {
  std::vector<std::string> keys;
  for (const std::string& name : names) keys.push_back(prefix_ + name);
  return ask<bool>([keys = std::move(keys)](c10d::Store& store) { return store.check(keys); },
                   limit)
      .value_or(false);
}

bool Words::erase(const std::vector<std::string>& names, Seconds limit) {
  std::vector<std::string> keys;
  for (const std::string& name : names) keys.push_back(prefix_ + name);
  return ask<bool>(
             [keys = std::move(keys)](c10d::Store& store) {
               for (const std::string& key : keys) store.deleteKey(key);
               return true;
             },
             limit)
      .value_or(false);
}

std::optional<std::string> Words::replace(const std::string& name, const std::string& before,
                                          const std::string& value, Seconds limit) {
  return ask<std::string>([key = prefix_ + name, before, value](
                              c10d::Store& store) { return store.compareSet(key, before, value); },
                          limit);
}

std::optional<std::int64_t> Words::count(const std::string& name, Seconds limit) {
  return ask<std::int64_t>([key = prefix_ + name](c10d::Store& store) { return store.add(key, 1); },
                           limit);
}

std::string Words::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
}

}  // namespace shardlight::engine
