// The account of a micro-step and of a run: a case small enough to add up by hand, and what holds
// of every one. Against real runs: tests/train/test_peak.py.
#include "shardlight/plan/gpt_step.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "shardlight/plan/hf_config.h"
#include "shardlight/plan/run_peak.h"

namespace shardlight::plan {
namespace {

constexpr GptStep kTiny{.vocabulary = 100,
                        .positions = 2,
                        .hidden = 2,
                        .layers = 1,
                        .heads = 1,
                        .tied = false,
                        .micro_batch = 1,
                        .sequence = 2};

// By hand. Forward keeps: the places' numbers 16 bytes, x 16, norm 16 + 8 + 8, q, k and v 48,
// attention 16 + 8, x 16, norm 32, inner 64, gelu 64, x 16, norm 32: 360. The highest is in the
// cross entropy's backward: log-softmax, its gradient and the logits' of 800 each, and 4 each for
// the loss and backward's 1.
constexpr std::int64_t kTinyPeak = 360 + 3 * 800 + 8;

layout::ParameterTable table_of(const GptStep& step) {
  const auto model = model_from_hf_config(
      fmt::format(R"({{"model_type": "gpt2", "vocab_size": {}, "n_positions": {}, "n_embd": {}, )"
                  R"("n_layer": {}, "n_head": {}, "tie_word_embeddings": {}}})",
                  step.vocabulary, step.positions, step.hidden, step.layers, step.heads, step.tied),
      "tiny");
  return *model->table;
}

RunPeak peak_of(const GptStep& step, int stage, std::int64_t ranks) {
  const auto units = layout::build_units(table_of(step), {.bytes_min = Bytes(1 << 30)});
  const auto placements = layout::placements_of_stage(stage, ranks);
  const auto peak = run_peak(*units, {.placements = *placements, .ranks = ranks}, step);
  EXPECT_TRUE(peak.has_value());
  return *peak;
}

// All parameters fill a grain of 64 elements or, the two of the vocabulary, four: 1472 elements.
TEST(RunPeak, AddsUpByHandWhereNothingIsSharded) {
  const RunPeak peak = peak_of(kTiny, 0, 1);
  EXPECT_EQ(peak.parameters, Bytes(5888));
  EXPECT_EQ(peak.gathered, Bytes(0));
  EXPECT_EQ(peak.gradients, Bytes(5888 + 5888));
  EXPECT_EQ(peak.optimizer, Bytes(2 * 5888 + 17 * 4));
  EXPECT_EQ(peak.passing, Bytes(kTinyPeak));
  EXPECT_EQ(peak.total(), Bytes(5888 + 11776 + 11844 + kTinyPeak));
}

// One unit of 23 grains, 12 of them on rank 0: with pieces of 9 parameters.
TEST(RunPeak, AddsUpByHandWhereAllIsSharded) {
  const RunPeak peak = peak_of(kTiny, 3, 2);
  EXPECT_EQ(peak.parameters, Bytes(3072));
  EXPECT_EQ(peak.gathered, Bytes(5888));
  EXPECT_EQ(peak.gradients, Bytes(3072));
  EXPECT_EQ(peak.optimizer, Bytes(2 * 3072 + 9 * 4));
  EXPECT_EQ(peak.passing, Bytes(kTinyPeak));
}

// Where gradients are more than activations, those of a unit that is not whole count.
TEST(RunPeak, HoldsGradientsUntilTheirUnitIsWhole) {
  const GptStep step{.vocabulary = 2, .positions = 1, .hidden = 64, .layers = 3, .heads = 1};
  const Bytes all(table_of(step).elements().value() * 4);
  EXPECT_GE(peak_of(step, 3, 2).passing, all);
  EXPECT_LT(peak_of(step, 0, 2).passing, all);
}

TEST(GptStep, ReleasesAllItTakesAndGivesEachParameterOneGradient) {
  for (const bool tied : {true, false}) {
    for (const std::int64_t micro_batch : {1, 3}) {
      GptStep step{.layers = 3, .tied = tied, .micro_batch = micro_batch, .sequence = 5};
      step.dropout = tied && micro_batch > 1;
      const auto events = gpt_step(step);
      ASSERT_TRUE(events.has_value());
      std::map<std::size_t, Bytes> held;
      std::map<layout::ParameterIndex, Bytes> gradients;
      for (const StepEvent& event : *events) {
        if (event.kind == StepEventKind::kTake) {
          EXPECT_TRUE(held.emplace(event.tensor, event.bytes).second);
          continue;
        }
        ASSERT_EQ(held.count(event.tensor), 1U);
        EXPECT_EQ(held[event.tensor], event.bytes);
        held.erase(event.tensor);
        if (event.kind == StepEventKind::kGradient) {
          EXPECT_TRUE(gradients.emplace(event.parameter, event.bytes).second);
        }
      }
      EXPECT_TRUE(held.empty());
      const auto table = table_of(step);
      ASSERT_EQ(gradients.size(), table.size());
      for (layout::ParameterIndex i = 0; i < table.size(); ++i) {
        EXPECT_EQ(gradients[i], Bytes(table[i].elements.value() * 4)) << table[i].name();
      }
    }
  }
}

TEST(GptStep, RefusesDropoutWhereAttentionCopiesLess) {
  GptStep step{.dropout = true, .micro_batch = 2, .sequence = 2};
  EXPECT_TRUE(gpt_step(step).has_value());
  step.micro_batch = 1;
  const auto events = gpt_step(step);
  ASSERT_FALSE(events.has_value());
  EXPECT_NE(events.error().message().find("dropout"), std::string::npos);
}

TEST(GptStep, RefusesSizesBelowOneByName) {
  GptStep step = kTiny;
  step.heads = 0;
  const auto events = gpt_step(step);
  ASSERT_FALSE(events.has_value());
  EXPECT_NE(events.error().message().find("heads"), std::string::npos);
}

}  // namespace
}  // namespace shardlight::plan
