// What ranks are told of each other, where no group and no process tells it: the boards of some
// ranks over one store, in one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <filesystem>
#include <future>

#include "shardlight/engine/c10d/board.h"
#include "tests/scratch.h"

namespace shardlight::engine {
namespace {

using testing::HasSubstr;
using testing::Optional;
using testing::StartsWith;

constexpr Seconds kGrace{0.05};

class FailingStore final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& keys) override {
    if (fails) throw std::runtime_error("[socket.cpp:1] Broken pipe\nand more");
    return c10d::HashStore::check(keys);
  }
  std::atomic<bool> fails{false};
};

class Boards : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::future<Result<std::unique_ptr<Board>>>> opening;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      opening.push_back(std::async(std::launch::async, [this, rank] {
        return Board::open(store, {.group = "g", .rank = Rank(rank), .world = 3},
                           comm::Deadline(Seconds(60)), kGrace);
      }));
    }
    for (auto& opened : opening) {
      auto board = opened.get();
      ASSERT_TRUE(board) << board.error().message();
      boards.push_back(std::move(*board));
    }
  }

  static RankCall call(std::int64_t number) {
    return {.number = number, .text = "gather of u", .deadline = comm::Deadline(Seconds(5))};
  }
  std::string blamed(const std::string& lost) { return boards[0]->blame(call(7), lost).what; }

  c10::intrusive_ptr<FailingStore> store = c10::make_intrusive<FailingStore>();
  std::vector<std::unique_ptr<Board>> boards;
};

TEST_F(Boards, NameWhoIsNotInTheCall) {
  boards[1]->waits(call(7));
  boards[2]->waits(call(6));
  const std::string what = blamed("");
  EXPECT_THAT(what, StartsWith("rank 2 did not come within 5 s. All ranks:\n"));
  EXPECT_THAT(what, HasSubstr("\n   1  active  waits in gather of u, call 7"));
  EXPECT_THAT(what, HasSubstr("\n   2  active  waits in gather of u, call 6"));
}

TEST_F(Boards, NameWhoIsMissingWhereAConnectionBroke) {
  boards[1]->waits(call(7));
  EXPECT_THAT(blamed("[pair.cc:1] Connection closed by peer\nand more"),
              StartsWith("rank 2 did not come: Connection closed by peer. All ranks:\n"));
}

TEST_F(Boards, SayWhatTheGroupSaysWhereAllAreThere) {
  boards[1]->waits(call(7));
  boards[2]->waits(call(7));
  EXPECT_THAT(blamed("Connection reset"), StartsWith("Connection reset. All ranks:\n"));
}

TEST_F(Boards, SayThatTheStoreFails) {
  store->fails = true;
  EXPECT_EQ(blamed("Connection reset"),
            "Connection reset, and the store of the ranks fails, so its host may be gone: Broken "
            "pipe");
  EXPECT_EQ(boards[1]->failure(call(7)).has_value(), false);
}

TEST_F(Boards, KeepTheFirstErrorOfAll) {
  EXPECT_FALSE(boards[2]->failure(call(7)));
  boards[1]->first({.by = Rank(1), .call = "barrier", .what = "broke\nin two"});
  EXPECT_EQ(boards[2]->first({.by = Rank(2), .call = "gather of u", .what = "late"}).what,
            "broke\nin two");
  const auto known = boards[0]->failure(call(7));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->by, Rank(1));
  EXPECT_EQ(known->call, "barrier");
  EXPECT_EQ(known->what, "broke\nin two");
}

TEST_F(Boards, TellWhoHasLeftBeforeTheCall) {
  boards[2]->leave(7);
  EXPECT_EQ(boards[0]->gone(call(7)), std::nullopt) << "its part of the call is on the way";
  EXPECT_THAT(boards[0]->gone(call(8)), Optional(std::string("rank 2 left")));
  RankCall message = call(0);
  message.peer = Rank(1);
  EXPECT_EQ(boards[0]->gone(message), std::nullopt);
  message.peer = Rank(2);
  EXPECT_THAT(boards[0]->gone(message), Optional(std::string("rank 2 left")));
}

TEST_F(Boards, HandOverEachWordOnce) {
  EXPECT_TRUE(boards[0]->put("message/0/1/0", "four\n5", call(0)));
  EXPECT_THAT(boards[1]->take("message/0/1/0", Seconds(1), call(0)),
              Optional(std::string("four\n5")));
  EXPECT_EQ(boards[1]->take("message/0/1/0", Seconds(0.001), call(0)), std::nullopt);
}

// As of a rank that has met the others and then finds no memory for its shards.
TEST_F(Boards, AreLeftByWhoeverMakesNoCall) {
  boards[2].reset();
  EXPECT_THAT(boards[0]->gone(call(1)), Optional(std::string("rank 2 left")));
  EXPECT_FALSE(store->check({"shardlight/g/use/2"})) << "it may connect again";
}

TEST_F(Boards, AreTakenDownByTheLastWhoLeaves) {
  boards[0]->waits(call(7));
  boards[1]->first({.by = Rank(1), .call = "barrier", .what = "broke"});
  for (auto& board : boards) board->leave(7);
  EXPECT_EQ(store->getNumKeys(), 1) << "the cards that were laid together last";
}

// Its process ends just after its connection broke: as soon as somebody asks why.
class FatalStore final : public c10d::FileStore {
 public:
  using FileStore::FileStore;
  bool check(const std::vector<std::string>& keys) override {
    if (victim > 0 && keys.front().ends_with("failure")) ::kill(victim.exchange(0), SIGKILL);
    return FileStore::check(keys);
  }
  std::atomic<pid_t> victim{0};
};

TEST(Board, NamesAProcessWhoseConnectionBrokeBeforeItsEndWasSeen) {
  const std::string file = scratch_path("board");
  const auto open = [&](const c10::intrusive_ptr<c10d::Store>& store, std::int64_t rank) {
    return Board::open(store, {.group = "g", .rank = Rank(rank), .world = 2},
                       comm::Deadline(Seconds(60)), Seconds(5));
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const auto board = open(c10::make_intrusive<c10d::FileStore>(file, 2), 1);
    ::pause();
    ::_exit(0);
  }
  const auto store = c10::make_intrusive<FatalStore>(file, 2);
  const auto board = open(store, 0);
  ASSERT_TRUE(board) << board.error().message();
  store->victim = child;
  const RankCall message{
      .text = "receive", .deadline = comm::Deadline(Seconds(60)), .peer = Rank(1)};
  EXPECT_THAT((*board)->blame(message, "Connection closed by peer").what,
              StartsWith(fmt::format("rank 1 (process {}) died", child)));
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shardlight::engine
