// What a PyTorch without torch.distributed is told.
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "shardlight/engine/c10d/c10d_world.h"

namespace shardlight::engine {
namespace {

TEST(NoC10d, SaysWhatIsMissing) {
  const auto transport = connect_c10d({}, {}, {}, comm::Deadline(Seconds(1)));
  ASSERT_FALSE(transport);
  EXPECT_EQ(transport.error().field(), "transport");
  EXPECT_THAT(transport.error().message(), testing::HasSubstr("USE_DISTRIBUTED"));
  EXPECT_EQ(ranks_of_process_group({}, {}, Seconds(1)).error().field(), "transport");
}

}  // namespace
}  // namespace shardlight::engine
