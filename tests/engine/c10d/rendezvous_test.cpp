// How ranks find each other, and only each other, in a store: the ranks are threads of this
// process.
#include "shardlight/engine/c10d/rendezvous.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>

namespace shardlight::engine {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Cards = Result<std::vector<Card>>;

class Rendezvous : public testing::Test {
 protected:
  std::future<Cards> come(const std::string& group, std::int64_t rank, std::int64_t world,
                          Seconds limit, const std::string& objection = "") {
    return std::async(std::launch::async, [=, this] {
      Words words(store, group + "/");
      return rendezvous(words, Rank(rank), world, objection, comm::Deadline(limit));
    });
  }
  void leave(const std::string& group, std::int64_t rank) {
    Words words(store, group + "/");
    part(words, Rank(rank));
  }
  void await_card(const std::string& key) { store->wait({key}, std::chrono::seconds(60)); }
  static std::string error_of(std::future<Cards> came) {
    const Cards cards = came.get();
    return cards ? "" : cards.error().message();
  }

  c10::intrusive_ptr<c10d::HashStore> store = c10::make_intrusive<c10d::HashStore>();
};

constexpr Seconds kAmple{60};
constexpr Seconds kShort{0.05};

TEST_F(Rendezvous, KeepsTheGroupsOfOneStoreApart) {
  auto b0 = come("b", 0, 2, kAmple);
  await_card("b/card/0");
  auto a1 = come("a", 1, 2, kAmple);
  await_card("a/card/1");
  const Cards a = come("a", 0, 2, kAmple).get();
  const Cards b = come("b", 1, 2, kAmple).get();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a1.get()->front().nonce, a->front().nonce);
  EXPECT_EQ(b0.get()->front().nonce, b->front().nonce);
  EXPECT_NE(a->front().nonce, b->front().nonce);
}

TEST_F(Rendezvous, NamesWhoDoesNotCome) {
  EXPECT_THAT(error_of(come("g", 1, 3, kShort)),
              StartsWith("rank 1, connect: rank 0, 2 did not come within 0.05 s"));
}

TEST_F(Rendezvous, ForgetsAttemptsThatNotAllRanksMade) {
  EXPECT_THAT(error_of(come("g", 0, 2, kShort)), HasSubstr("rank 1 did not come"));
  EXPECT_THAT(error_of(come("g", 0, 2, kShort)), HasSubstr("rank 1 did not come"));
  EXPECT_THAT(error_of(come("g", 1, 2, kShort)), HasSubstr("rank 0 gave up before"));
  auto first = come("g", 0, 2, kAmple);
  const Cards second = come("g", 1, 2, kAmple).get();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(first.get()->front().nonce, second->front().nonce);
}

TEST_F(Rendezvous, TellsAllRanksWhatOneObjects) {
  auto first = come("g", 0, 2, kAmple);
  EXPECT_THAT(error_of(come("g", 1, 2, kAmple, "staging: '5' is not allowed")),
              StartsWith("rank 1, connect: rank 1 does not connect: staging"));
  EXPECT_THAT(error_of(std::move(first)),
              StartsWith("rank 0, connect: rank 1 does not connect: staging: '5' is not allowed"));
  auto again = come("g", 0, 2, kAmple);
  EXPECT_EQ(error_of(come("g", 1, 2, kAmple)), "");
  EXPECT_EQ(error_of(std::move(again)), "");
}

TEST_F(Rendezvous, IsRefusedOverAGroupThatIsHeld) {
  auto first = come("g", 0, 2, kAmple);
  ASSERT_EQ(error_of(come("g", 1, 2, kAmple)), "");
  ASSERT_EQ(error_of(std::move(first)), "");
  EXPECT_THAT(error_of(come("g", 1, 2, kAmple)), StartsWith("group: "));
  leave("g", 0);
  leave("g", 1);
  auto again = come("g", 0, 2, kAmple);
  EXPECT_EQ(error_of(come("g", 1, 2, kAmple)), "");
  EXPECT_EQ(error_of(std::move(again)), "");
}

TEST_F(Rendezvous, TakesAGroupOverFromAProcessThatIsNoMore) {
  store->set("g/use/0", std::vector<std::uint8_t>{'1', ' ', 'x'});
  EXPECT_EQ(error_of(come("g", 0, 1, kAmple)), "");
}

// Its host is stopped: it takes questions and answers none.
class StoppedStore final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& /*keys*/) override {
    goes_on.get_future().wait();
    return false;
  }
  std::promise<void> goes_on;
};

TEST(Words, GiveUpOnAStoreThatDoesNotAnswer) {
  const auto store = c10::make_intrusive<StoppedStore>();
  {
    Words words(store, "g/");
    EXPECT_EQ(words.get("a", kShort), std::nullopt);
    EXPECT_EQ(words.error(), "it did not answer within 0.1 s");
    EXPECT_FALSE(words.set("a", "1", kAmple)) << "it is not asked again";
  }
  store->goes_on.set_value();
}

// As of a process that forks while an engine lives.
TEST(Words, MayBeDestroyedInAForkedChild) {
  auto words = std::make_unique<Words>(c10::make_intrusive<c10d::HashStore>(), "g/");
  EXPECT_TRUE(words->set("a", "1", kAmple));
  EXPECT_EXIT(
      {
        words.reset();
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shardlight::engine
