#include "shardlight/plan/literature.h"

#include <gtest/gtest.h>

namespace shardlight::plan {
namespace {

TEST(CrossHostBytes, HybridSendsAHostsShareOfWhatReplicationDoes) {
  // 8 GB on 16 ranks, 8 a host, by hand: 8 x 15/16 = 7.5.
  const CrossHostBytes bytes = cross_host_bytes(Bytes(8'000'000'000), 16, 8);
  EXPECT_DOUBLE_EQ(bytes.replicated, 15e9);
  EXPECT_DOUBLE_EQ(bytes.fully_sharded, 22.5e9);
  EXPECT_DOUBLE_EQ(bytes.hybrid, 1.875e9);
}

TEST(Intensity, IsZeroInfinitys) {
  EXPECT_DOUBLE_EQ(intensity_of_parameters_and_gradients(1024, 2), 2048);
  EXPECT_DOUBLE_EQ(intensity_of_optimizer_states(1024, 2), 512);
  EXPECT_DOUBLE_EQ(intensity_of_checkpoints(8192, 1), 196'608);
  // 70 GB/s at 1 x 1024 against 70 TFLOP/s: the paper's figure 3 starts just above a half.
  EXPECT_NEAR(bandwidth_efficiency(1024, 70e9, 70e12), 0.506, 0.001);
  EXPECT_DOUBLE_EQ(bandwidth_efficiency(0, 70e9, 70e12), 0);
}

TEST(LayerActivationBytes, WithoutParallelismAgreesWithThePlansRule) {
  const ParallelLayer layer{.sequence = 16, .batch = 2, .hidden = 64, .heads = 4};
  const TransformerShape shape{.hidden = 64, .layers = 1, .heads = 4};
  for (const Checkpointing checkpointing :
       {Checkpointing::kNone, Checkpointing::kSelective, Checkpointing::kFull}) {
    const auto plan =
        activations(shape, {.micro_batch = 2, .sequence = 16, .checkpointing = checkpointing});
    EXPECT_DOUBLE_EQ(layer_activation_bytes(layer, checkpointing),
                     static_cast<double>(plan->layers.value()));
  }
}

TEST(LayerActivationBytes, UnderTensorParallelismByHand) {
  ParallelLayer layer{.sequence = 8, .batch = 1, .hidden = 16, .heads = 2, .tensor_parallel = 4};
  const double sbh = 8 * 16;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(layer, Checkpointing::kNone), sbh * (10 + 6 + 1.25));
  layer.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(layer, Checkpointing::kNone), sbh / 4 * (34 + 5));
  EXPECT_DOUBLE_EQ(layer_activation_bytes(layer, Checkpointing::kSelective), sbh / 4 * 34);
  EXPECT_DOUBLE_EQ(layer_activation_bytes(layer, Checkpointing::kFull), 2 * sbh);
}

}  // namespace
}  // namespace shardlight::plan
