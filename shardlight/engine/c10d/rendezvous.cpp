#include "shardlight/engine/c10d/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

namespace shardlight::engine {
namespace {

// Between two looks into the store: at first, and later.
constexpr std::chrono::microseconds kFirstLook{250};
constexpr std::chrono::microseconds kLook{20'000};
// In place of the card of a rank that waits no more.
constexpr const char* kGaveUp = "-";
constexpr char kBetweenCards = '\x1e';
constexpr const char* kTogether = "together";

// Of one boot of one machine, in one namespace of processes.
std::string host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> space{};
  const auto length = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  return boot + std::string(space.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
}

std::string new_nonce() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:016x}", random(), random(),
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

std::string text_of(const Card& card) {
  return fmt::format("{} {} {}\n{}", card.process, card.nonce, card.host, card.objection);
}

Card card_of(const std::string& text) {
  Card card;
  std::istringstream in(text);
  in >> card.process >> card.nonce;
  in.ignore();
  std::getline(in, card.host);
  std::getline(in, card.objection, kBetweenCards);
  return card;
}

std::string shown(std::int64_t rank) { return fmt::format("card/{}", rank); }
std::string use(Rank rank) { return fmt::format("use/{}", rank.value()); }

std::vector<std::string> split(const std::string& together) {
  std::vector<std::string> cards;
  std::istringstream in(together);
  for (std::string card; std::getline(in, card, kBetweenCards);) cards.push_back(card);
  return cards;
}

class Attempt {
 public:
  Attempt(Words& words, Rank rank, std::int64_t world, Card own, comm::Deadline deadline)
      : words_(&words), rank_(rank), world_(world), own_(std::move(own)), deadline_(deadline) {}

  // A word of who has the group: the process, as one that died does not hold it.
  Status take_group() {
    const std::string mine = fmt::format("{} {}", own_.process, own_.host);
    const auto before = words_->get(use(rank_), limit());
    if (before != mine && words_->replace(use(rank_), before.value_or(""), mine, limit()) == mine) {
      return {};
    }
    if (!words_->error().empty()) return error("the store of the ranks fails: " + words_->error());
    return user_error("group", "one that a transport of this process has",
                      "one of its own for each transport: dist.new_group()");
  }

  Result<std::vector<Card>> meet() {
    const std::string mine = text_of(own_);
    words_->set(shown(rank_.value()), mine, limit());
    const bool met = await(deadline_, [&] {
      return (rank_ == Rank(0) ? lay_together() : look(mine)) || !words_->error().empty();
    });
    if (!words_->error().empty()) return error("the store of the ranks fails: " + words_->error());
    if (!met) {
      const std::string what = who_is_missing();
      words_->set(shown(rank_.value()), kGaveUp, limit());
      return error(what);
    }
    std::vector<Card> cards;
    for (const std::string& card : cards_) cards.push_back(card_of(card));
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      const std::string& objection = cards[static_cast<std::size_t>(rank)].objection;
      if (!objection.empty()) {
        return error(fmt::format("rank {} does not connect: {}", rank, objection));
      }
    }
    return cards;
  }

 private:
  Seconds limit() const { return std::clamp(deadline_.left(), Seconds(1), kAnswer); }

  Failure error(const std::string& detail) const {
    return Failure(Error::environment({.rank = rank_, .unit = "", .operation = "connect"}, detail,
                                      Unusable::kCommunicator));
  }

  bool lay_together() {
    std::vector<std::string> names;
    for (std::int64_t rank = 0; rank < world_; ++rank) names.push_back(shown(rank));
    if (!words_->has(names, limit())) return false;
    std::string together;
    cards_.clear();
    for (const std::string& name : names) {
      cards_.push_back(words_->get(name, limit()).value_or(kGaveUp));
      if (cards_.back() == kGaveUp) return false;
      together += cards_.back() + kBetweenCards;
    }
    // Before any rank can come again: a card is for one attempt.
    return words_->erase(names, limit()) && words_->set(kTogether, together, limit());
  }

  bool look(const std::string& mine) {
    cards_ = split(words_->get(kTogether, limit()).value_or(""));
    return cards_.size() == static_cast<std::size_t>(world_) &&
           cards_[static_cast<std::size_t>(rank_.value())] == mine;
  }

  std::string who_is_missing() {
    std::string absent;
    std::string gave_up;
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      const auto card = words_->get(shown(rank), limit());
      if (card && card != kGaveUp) continue;
      std::string& ranks = card ? gave_up : absent;
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
    }
    const double seconds = deadline_.limit().count();
    if (!absent.empty()) return fmt::format("rank {} did not come within {} s", absent, seconds);
    if (!gave_up.empty()) return fmt::format("rank {} gave up before this one came", gave_up);
    return fmt::format("rank 0 did not lay the ranks' cards together within {} s", seconds);
  }

  Words* words_;
  Rank rank_;
  std::int64_t world_;
  Card own_;
  comm::Deadline deadline_;
  std::vector<std::string> cards_;  // by rank
};

}  // namespace

bool await(comm::Deadline deadline, const std::function<bool()>& found) {
  for (auto pause = kFirstLook;; pause = std::min(2 * pause, kLook)) {
    if (found()) return true;
    if (deadline.left() < pause) return false;
    std::this_thread::sleep_for(pause);
  }
}

Result<std::vector<Card>> rendezvous(Words& words, Rank rank, std::int64_t world,
                                     const std::string& objection, comm::Deadline deadline) {
  Card own{.process = ::getpid(), .nonce = new_nonce(), .host = host(), .objection = objection};
  Attempt attempt(words, rank, world, std::move(own), deadline);
  SHARDLIGHT_TRY_STATUS(attempt.take_group());
  auto cards = attempt.meet();
  if (!cards) part(words, rank);
  return cards;
}

void part(Words& words, Rank rank) { words.erase({use(rank)}, Seconds(1)); }

}  // namespace shardlight::engine
