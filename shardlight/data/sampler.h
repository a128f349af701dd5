// Which sequences a step sees. Sequence k of the global micro-batch j of step s is a function of
// (seed, s, j, k) alone, so any split of the global batch over ranks and accumulation sees the same
// ones, and a run that goes on from step s needs nothing else. The end of the corpus is held out
// and never trained on.
// Pure but for the corpus, which is borrowed and must outlive it; any thread.
#pragma once

#include <vector>

#include "shardlight/data/corpus.h"

namespace shardlight::data {

// `rows` sequences of `columns` tokens, one after another.
struct TokenBatch {
  std::vector<std::int64_t> tokens;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

struct SamplerOptions {
  std::uint64_t seed = 0;
  std::int64_t sequence =
      0;                   // tokens a sequence is trained on; one more is read, as the last target
  double held_out = 0.05;  // share of the corpus
};

class Sampler {
 public:
  // Errors (user): `held_out` outside (0, 1), `sequence` below 1 or so long that the training part
  // or the held-out part has not one.
  static Result<Sampler> create(const Corpus& corpus, const SamplerOptions& options);

  Count training_tokens() const { return training_; }
  Count held_out_tokens() const { return corpus_->tokens() - training_; }

  // Where that sequence begins in the corpus.
  Count place(std::int64_t step, std::int64_t micro_batch, std::int64_t row) const;
  // The micro-batch of `rows` sequences of `sequence` + 1 tokens. Errors: as Corpus::read.
  Result<TokenBatch> training(std::int64_t step, std::int64_t micro_batch, std::int64_t rows) const;
  // Sequences first, first + 1, … of `all` that lie evenly over the held-out part; they go round.
  Result<TokenBatch> held_out(std::int64_t first, std::int64_t rows, std::int64_t all) const;

 private:
  Sampler(const Corpus& corpus, const SamplerOptions& options, Count training)
      : corpus_(&corpus), options_(options), training_(training) {}

  Status read_row(Count place, TokenBatch& batch) const;

  const Corpus* corpus_;
  SamplerOptions options_;
  Count training_;
};

}  // namespace shardlight::data
