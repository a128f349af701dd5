// What ranks make of each other's headers.
#include "shardlight/engine/c10d/call_header.h"

#include <gmock/gmock.h>

#include <limits>

namespace shardlight::engine {
namespace {

using testing::StartsWith;

CallHeader gather_of(std::uint32_t unit, std::uint64_t before) {
  CallHeader header;
  header.number = 1;
  header.unit = unit + 1;
  header.kind = static_cast<std::uint8_t>(comm::OperationKind::kGather);
  append_to_history(header, before);
  return header;
}

const std::vector<comm::UnitSpec>& units() {
  static const std::vector<comm::UnitSpec> kUnits = {{.name = "h.0"}, {.name = "h.1"}};
  return kUnits;
}

TEST(CallHeader, TellsOtherCallsFromTheSame) {
  EXPECT_EQ(difference({gather_of(0, 7), gather_of(0, 7)}, Rank(0), units()), "");
  EXPECT_THAT(difference({gather_of(0, 7), gather_of(1, 7)}, Rank(0), units()),
              StartsWith("rank 1 calls gather of h.1, version 0 as call 1; this rank calls"));
}

TEST(CallHeader, IsNotThatOfAnotherTransport) {
  EXPECT_THAT(difference({gather_of(0, 7), gather_of(0, 8)}, Rank(0), units()),
              StartsWith("rank 1 made other calls than this rank before gather of h.0"));
}

TEST(CallHeader, IsToldFromBytesOfAnotherUserOfTheGroup) {
  CallHeader bytes;
  bytes.unit = std::numeric_limits<std::uint32_t>::max();
  bytes.kind = 255;
  EXPECT_THAT(difference({gather_of(0, 7), bytes}, Rank(0), units()),
              StartsWith("rank 1 sends what is no call of this exchange"));
}

}  // namespace
}  // namespace shardlight::engine
