// What is compiled where MPI is not installed; linked before the library's own.
#include <gmock/gmock.h>

#include "shardlight/comm/mpi/mpi_world.h"

namespace shardlight::comm {
namespace {

TEST(WithoutMpi, ConnectSaysWhatIsMissingAndWhatToDo) {
  const auto made = connect_mpi({}, Deadline(Seconds(1)));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().category(), ErrorCategory::kUser);
  EXPECT_EQ(made.error().field(), "transport");
  EXPECT_THAT(made.error().message(), testing::HasSubstr("mpi (not built"));
  EXPECT_THAT(made.error().message(), testing::HasSubstr("libopenmpi-dev"));
}

}  // namespace
}  // namespace shardlight::comm
