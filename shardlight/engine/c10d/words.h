// What the ranks write for each other in a store of torch.distributed, below a prefix. A store is
// asked by calls that block for as long as its host is stopped, so a thread of its own asks it, and
// who waits for the answer gives up at a limit. A store that has failed once is not asked again.
//
// Any thread; throws nothing. Owns the thread, which outlives it where the store never answers.
// Internal to engine/c10d.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/quantity.h"

namespace shardlight::engine {

class Words {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;

  Words(StorePtr store, std::string prefix);
  ~Words();
  Words(const Words&) = delete;
  Words(Words&&) = delete;
  Words& operator=(const Words&) = delete;
  Words& operator=(Words&&) = delete;

  // False, or nothing, where the store fails, of which error() tells, or has no such word.
  bool set(const std::string& name, const std::string& value, Seconds limit);
  std::optional<std::string> get(const std::string& name, Seconds limit);
  bool has(const std::vector<std::string>& names, Seconds limit);
  bool erase(const std::vector<std::string>& names, Seconds limit);
  // Sets it if it was `before`, or was not there and `before` is empty; what it is now.
  std::optional<std::string> replace(const std::string& name, const std::string& before,
                                     const std::string& value, Seconds limit);
  // How many times it has been counted, this one too.
  std::optional<std::int64_t> count(const std::string& name, Seconds limit);

  std::string error() const;  // empty while the store works

 private:
  class Asker;
  template <class Answer>
  std::optional<Answer> ask(std::function<Answer(c10d::Store&)> question, Seconds limit);

  StorePtr store_;
  std::string prefix_;
  std::unique_ptr<Asker> asker_;
  mutable std::mutex mutex_;
  std::string error_;
};

// What torch and Gloo say, without where in their sources.
std::string first_line(const std::string& text);

}  // namespace shardlight::engine
