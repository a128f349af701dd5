// One rank of a test program under mpirun. All ranks come to the same verdict (mpi_worlds.cpp), so
// rank 0 alone prints; all return it. Large units are for the full tier.
#include <gtest/gtest.h>

#include "shardlight/base/environment.h"
#include "shardlight/comm/place.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto environment = shardlight::Environment::of_process();
  if (environment.text("SHARDLIGHT_TEST_TIER") != "full") {
    testing::GTEST_FLAG(filter) += "-*OfLargeUnits*";
  }
  const auto place = shardlight::comm::place_of(environment);
  if (place && place->rank != shardlight::Rank(0)) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  return RUN_ALL_TESTS();
}
