#include "shardlight/layout/parameter_table.h"

#include <gtest/gtest.h>

namespace shardlight::layout {
namespace {

TEST(ParameterTable, KeepsOrderNamesAndSums) {
  ParameterTable table;
  EXPECT_EQ(*table.add("a", {3, 4}), 0U);
  EXPECT_EQ(*table.add("b", {}, {.trainable = false}), 1U);
  EXPECT_TRUE(table.alias(0, "tied"));
  EXPECT_EQ(table[0].names, (std::vector<std::string>{"a", "tied"}));
  EXPECT_EQ(table.find("tied"), 0U);
  EXPECT_EQ(table.find("c"), std::nullopt);
  EXPECT_EQ(table.elements(), Count(13));  // a scalar is one element
  EXPECT_EQ(table.trainable_elements(), Count(12));
}

TEST(ParameterTable, CountsAbove32Bits) {
  ParameterTable table;
  ASSERT_TRUE(table.add("a", {70'000, 70'000}, {.dtype = DType::kBFloat16}));
  EXPECT_EQ(table.elements(), Count(4'900'000'000));
  EXPECT_EQ(table[0].bytes(), Bytes(9'800'000'000));
}

TEST(ParameterTable, RefusesByNameAndStaysAsItWas) {
  ParameterTable table;
  ASSERT_TRUE(table.add("a", {1}));
  EXPECT_EQ(table.add("a", {2}).error().value(), "a");
  EXPECT_FALSE(table.add("", {2}));
  EXPECT_EQ(table.add("b", {2, -1}).error().message(),
            "b.shape: '[2, -1]' is not allowed; allowed: dimensions of 0 or more");
  const std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_EQ(table.add("b", {huge, huge}).error().field(), "b.shape");
  EXPECT_FALSE(table.add("b", {huge, huge / 4 + 1}));  // elements fit, bytes do not
  EXPECT_TRUE(table.add("b", {huge, huge, 0}));        // empty, whatever the other dimensions
  EXPECT_FALSE(table.alias(0, "b"));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.elements(), Count(1));
}

TEST(BlockOf, IsThePrefixUpToTheFirstNumber) {
  EXPECT_EQ(block_of("transformer.h.0.mlp.c_fc.weight"), "transformer.h.0");
  EXPECT_EQ(block_of("model.layers.11.experts.3.w1"), "model.layers.11");
  EXPECT_EQ(block_of("0.weight"), "0");
  EXPECT_EQ(block_of("wte.weight"), "");
  EXPECT_EQ(block_of("scales.3"), "");
  EXPECT_EQ(block_of("conv2d.weight"), "");
  EXPECT_EQ(block_of(""), "");
}

TEST(DType, NamesGoBothWays) {
  EXPECT_EQ(dtype_from_safetensors("BF16"), DType::kBFloat16);
  EXPECT_EQ(dtype_from_safetensors("bf16"), std::nullopt);
  EXPECT_EQ(torch_name(DType::kInt64), "int64");
  EXPECT_EQ(safetensors_name(DType::kFloat8E4M3), "F8_E4M3");
  EXPECT_EQ(bytes_per_element(DType::kFloat64), Bytes(8));
}

}  // namespace
}  // namespace shardlight::layout
