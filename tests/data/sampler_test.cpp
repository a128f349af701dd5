#include "shardlight/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "tests/scratch.h"

namespace shardlight::data {
namespace {

using testing::HasSubstr;

// 4000 tokens, each pair of neighbours at one place only.
Corpus numbered_corpus() {
  std::string tokens;
  for (int i = 0; i < 4000; ++i) tokens += {static_cast<char>(i), static_cast<char>(i >> 8)};
  scratch_file("numbered.u16.json", R"({"dtype": "uint16", "vocabulary": 4000})");
  return *Corpus::open({scratch_file("numbered.u16", tokens)});
}

const Corpus& corpus() {
  static const Corpus kCorpus = numbered_corpus();
  return kCorpus;
}

Sampler sampler(std::uint64_t seed, std::int64_t sequence = 7, double held_out = 0.25) {
  return *Sampler::create(corpus(), {.seed = seed, .sequence = sequence, .held_out = held_out});
}

TEST(Sampler, SplitsTheCorpus) {
  EXPECT_EQ(sampler(1).training_tokens(), Count(3000));
  EXPECT_EQ(sampler(1).held_out_tokens(), Count(1000));
}

RC_GTEST_PROP(Sampler, ReadsConsecutiveTokensOfItsPart, ()) {
  const Sampler of = sampler(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange(1, 999));
  const std::int64_t step = *rc::gen::inRange(0, 1'000'000);
  const auto training = of.training(step, *rc::gen::inRange(0, 999), 3);
  const auto held_out = of.held_out(*rc::gen::inRange(0, 50), 3, *rc::gen::inRange(1, 50));
  for (const TokenBatch* batch : {&*training, &*held_out}) {
    RC_ASSERT(batch->rows == 3);
    RC_ASSERT(static_cast<std::int64_t>(batch->tokens.size()) == 3 * batch->columns);
    for (std::size_t i = 0; i < batch->tokens.size(); ++i) {
      const bool first = static_cast<std::int64_t>(i) % batch->columns == 0;
      RC_ASSERT(first || batch->tokens[i] == batch->tokens[i - 1] + 1);
      RC_ASSERT((batch->tokens[i] < 3000) == (batch == &*training));
    }
  }
}

// Two ranks with accumulation 3 see what one rank with 6 sees: micro-batch j is the same whoever
// takes it, and rows are the same however many are asked for.
TEST(Sampler, DoesNotDependOnWhoAsks) {
  const Sampler one = sampler(9), other = sampler(9);
  for (std::int64_t step = 0; step < 5; ++step) {
    for (std::int64_t j = 5; j >= 0; --j) {
      const TokenBatch four = *one.training(step, j, 4);
      const TokenBatch two = *other.training(step, j, 2);
      EXPECT_TRUE(std::equal(two.tokens.begin(), two.tokens.end(), four.tokens.begin()));
    }
  }
}

TEST(Sampler, DrawsOtherPlacesForOtherSeedsStepsMicroBatchesAndRows) {
  std::set<std::int64_t> places;
  const Sampler large = *Sampler::create(corpus(), {.seed = 3, .sequence = 1, .held_out = 0.01});
  int drawn = 0;
  for (std::int64_t step = 0; step < 8; ++step) {
    for (std::int64_t j = 0; j < 8; ++j) {
      for (std::int64_t row = 0; row < 8; ++row, ++drawn) {
        places.insert(large.place(step, j, row).value());
      }
    }
  }
  // 512 uniform draws of 3959 places hit about 480 different ones (3959 (1 - e^-0.129)).
  EXPECT_GT(places.size(), 450U);
  EXPECT_LT(*places.begin(), 100);
  EXPECT_GT(*places.rbegin(), 3850);
  EXPECT_NE(sampler(1).place(0, 0, 0), sampler(2).place(0, 0, 0));
}

TEST(Sampler, SpreadsHeldOutSequencesEvenly) {
  const TokenBatch batch = *sampler(1).held_out(0, 4, 4);
  for (std::int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(batch.tokens[row * 8], 3000 + row * 993 / 4);
  }
  EXPECT_EQ(sampler(1).held_out(4, 1, 4)->tokens[0], 3000);
}

TEST(Sampler, RefusesASequenceThatDoesNotFitEitherPart) {
  const auto longest = Sampler::create(corpus(), {.sequence = 999, .held_out = 0.25});
  EXPECT_TRUE(longest);
  for (const auto& [sequence, held_out, says] :
       {std::tuple{1000, 0.25, "sequence: '1000' is not allowed; allowed: 1 to 999"},
        {0, 0.25, "sequence: '0'"},
        {7, 0.0, "held_out: '0"},
        {7, 1.0, "held_out: '1"},
        {7, 0.001, "sequence: '7' is not allowed; allowed: 1 to 3"},
        {7, 0.0004,
         "sequence: '7' is not allowed; allowed: none with 4000 tokens of data: 7 needs "
         "20000, as"}}) {
    const auto refused = Sampler::create(corpus(), {.sequence = sequence, .held_out = held_out});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr(says));
  }
}

}  // namespace
}  // namespace shardlight::data
