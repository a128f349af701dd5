// How processes meet: mismatches, ranks that do not come, that come twice or die on the way.
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "shardlight/comm/shared/shared_layout.h"
#include "shardlight/comm/shm/local_socket.h"
#include "shardlight/comm/shm/packet.h"
#include "shardlight/comm/shm/shm_world.h"
#include "shardlight/comm/threads/threads_world.h"
#include "tests/comm/child_processes.h"
#include "tests/comm/training_steps.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Seconds kLimit{60};

struct Comer {
  std::int64_t rank;
  std::int64_t world;
  std::string unit = "u";
  bool whole = false;
};

// What each of them says; "connected" where it went well.
std::vector<std::string> meet(const std::vector<Comer>& comers, Seconds patience) {
  ChildProcesses children(
      static_cast<int>(comers.size()), [&, job = new_job()](int index) -> std::string {
        const Comer& comer = comers[index];
        UnitSpec unit = unit_of(comer.unit, 10, comer.world);
        unit.whole = comer.whole;
        auto transport = connect_shm({.job = job, .rank = Rank(comer.rank), .world = comer.world},
                                     {unit}, Deadline(patience));
        return transport ? "connected" : transport.error().message();
      });
  std::vector<std::string> said;
  for (const auto& end : children.ends(kLimit)) {
    said.push_back(end.straggled ? "hung" : end.text);
  }
  return said;
}

TEST(Connect, RanksMayComeInAnyOrder) {
  EXPECT_THAT(meet({{2, 3}, {1, 3}, {0, 3}}, kLimit), Each("connected"));
}

TEST(Connect, ADifferentWorldIsNamedOnBothSides) {
  EXPECT_THAT(meet({{0, 2}, {1, 3}}, kLimit),
              Each(AllOf(HasSubstr("connect"), HasSubstr("has world 3, rank 0 has 2"))));
}

TEST(Connect, DifferentUnitsAreNamedOnBothSides) {
  EXPECT_THAT(meet({{0, 2, "u"}, {1, 2, "v"}}, kLimit),
              Each(AllOf(HasSubstr("connect"), HasSubstr("rank 1 (process"),
                         HasSubstr("has units of fingerprint"))));
  EXPECT_THAT(meet({{0, 2, "u", false}, {1, 2, "u", true}}, kLimit),
              Each(HasSubstr("rank 1 (process")));
}

TEST(Connect, ARankThatComesTwiceIsNamedOnBothSides) {
  EXPECT_THAT(meet({{0, 3}, {1, 3}, {1, 3}}, kLimit), Each(HasSubstr("rank 1 came twice")));
  EXPECT_THAT(meet({{0, 3}, {0, 3}}, kLimit), Each(HasSubstr("rank 0 came twice")));
}

TEST(Connect, WhoDoesNotComeIsNamedAtTheDeadline) {
  const Seconds patience(0.3);
  // Whose limit passes first is chance; rank 2 may be told by rank 0 or give up by itself.
  EXPECT_THAT(meet({{0, 4}, {2, 4}}, patience),
              testing::ElementsAre(
                  AllOf(StartsWith("rank 0, connect: "), HasSubstr("rank 1, 3")),
                  AnyOf(HasSubstr("rank 1, 3 did not come"), HasSubstr("some did not come"))));
  EXPECT_THAT(meet({{1, 2}}, patience),
              Each(HasSubstr("rank 1, connect: rank 0 did not come within 0.3 s")));
}

// Says hello as a rank of four, without more.
Descriptor greeted(const std::string& job, std::int32_t rank) {
  Descriptor socket;
  while (!socket) socket = connect_to(address_of_job(job));
  const SharedLayout layout({unit_of("u", 10, 4)}, 4);
  send_hello(socket, {.rank = rank, .world = 4, .fingerprint = layout.fingerprint()});
  return socket;
}

TEST(Connect, ARankThatDiesMeanwhileIsNamedToAllThatAreThere) {
  const std::string job = new_job();
  auto* waits = shared<std::atomic<int>>();
  ChildProcesses children(3, [&](int rank) -> std::string {
    if (rank == 1) {
      const Descriptor socket = greeted(job, 1);
      *waits = 1;
      pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&polled, 1, -1);
      std::vector<Descriptor> none;
      const auto answer = receive_answer(socket, none);
      return answer ? answer->reason.data() : "no answer";
    }
    if (rank == 2) {
      while (*waits == 0) ::sched_yield();
      const Descriptor socket = greeted(job, 2);
      ::kill(::getpid(), SIGKILL);
    }
    auto transport = connect_shm({.job = job, .rank = Rank(0), .world = 4}, {unit_of("u", 10, 4)},
                                 Deadline(kLimit));
    return transport ? "connected" : transport.error().message();
  });
  const auto ends = children.ends(kLimit);
  EXPECT_THAT(ends[0].text, StartsWith("rank 0, connect: rank 2 (process"));
  EXPECT_THAT(ends[0].text, HasSubstr("died or gave up before rank"));
  EXPECT_THAT(ends[1].text, StartsWith("rank 2 (process"));
}

TEST(Connect, OptionsAreChecked) {
  const auto field = [](const ShmOptions& options, const std::vector<UnitSpec>& units) {
    auto made = connect_shm(options, units, ample());
    return made ? "" : made.error().field();
  };
  EXPECT_EQ(field({.job = ""}, {}), "job");
  EXPECT_EQ(field({.job = "j", .rank = Rank(0), .world = 0}, {}), "world");
  EXPECT_EQ(field({.job = "j", .rank = Rank(0), .world = 129}, {}), "world");
  EXPECT_EQ(field({.job = "j", .rank = Rank(2), .world = 2}, {}), "rank");
  EXPECT_EQ(field({.job = "j"}, {unit_of("u", 1, 2)}), "u.slices");
  EXPECT_EQ(make_threads_world({}, 129).error().field(), "world");
  EXPECT_EQ(make_threads_world({unit_of("u", 1, 1), unit_of("u", 1, 1)}, 1).error().field(),
            "unit name");
  UnitSpec grouped = unit_of("u", 1, 2);
  grouped.order = {.kind = ReduceOrderKind::kGrouped, .group = 3};
  EXPECT_EQ(make_threads_world({grouped}, 2).error().field(), "u.order.group");
  UnitSpec whole_numbers = unit_of("u", 1, 1);
  whole_numbers.sum_dtype = layout::DType::kInt32;
  EXPECT_EQ(make_threads_world({whole_numbers}, 1).error().field(), "u.sum_dtype");
  whole_numbers.reduces = false;
  EXPECT_TRUE(make_threads_world({whole_numbers}, 1).has_value());
}

TEST(Connect, DescriptorsAreGivenBack) {
  const auto open_now = [] {
    int open = 0;
    for (int fd = 0; fd < 200; ++fd) open += ::lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF;
    return open;
  };
  const int before = open_now();
  for (int i = 0; i < 3; ++i) {
    auto made = connect_shm({.job = new_job()}, {unit_of("u", 10, 1)}, ample());
    ASSERT_TRUE(made) << made.error().message();
  }
  EXPECT_EQ(open_now(), before);
}

}  // namespace
}  // namespace shardlight::comm
