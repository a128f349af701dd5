#include "shardlight/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardlight/base/random.h"

namespace shardlight::data {
namespace {

// Tells this use of a seed from others.
constexpr std::uint64_t kStream = std::uint64_t{0xDA7A} << 48U;
constexpr unsigned kRowBits = 20;

__extension__ using Wide = unsigned __int128;

// A number below `bound` from 64 random bits.
std::int64_t scaled(std::uint64_t bits, std::int64_t bound) {
  return static_cast<std::int64_t>((Wide{bits} * static_cast<Wide>(bound)) >> 64U);
}

TokenBatch empty_batch(std::int64_t rows, std::int64_t columns) {
  TokenBatch batch{.tokens = {}, .rows = 0, .columns = columns};
  batch.tokens.reserve(static_cast<std::size_t>(rows * columns));
  return batch;
}

std::int64_t held_out_tokens_of(std::int64_t tokens, double share) {
  return static_cast<std::int64_t>(static_cast<double>(tokens) * share);
}

// Tokens of which both parts have at least `each`.
std::int64_t tokens_needed(std::int64_t each, double held_out) {
  auto tokens =
      static_cast<std::int64_t>(static_cast<double>(each) / std::min(held_out, 1 - held_out));
  const auto too_few = [&] {
    const std::int64_t held = held_out_tokens_of(tokens, held_out);
    return std::min(held, tokens - held) < each;
  };
  while (too_few()) ++tokens;
  return tokens;
}

}  // namespace

Result<Sampler> Sampler::create(const Corpus& corpus, const SamplerOptions& options) {
  if (options.held_out <= 0 || options.held_out >= 1) {
    return user_error("held_out", fmt::to_string(options.held_out), "more than 0 and less than 1");
  }
  const std::int64_t held_out = held_out_tokens_of(corpus.tokens().value(), options.held_out);
  const std::int64_t training = corpus.tokens().value() - held_out;
  const std::int64_t longest = std::min(training, held_out) - 1;
  if (longest < 1) {
    const std::int64_t sequence = std::max<std::int64_t>(1, options.sequence);
    return user_error("sequence", fmt::to_string(options.sequence),
                      fmt::format("none with {} tokens of data: {} needs {}, as the training part "
                                  "and the held-out part must each have a sequence and the token "
                                  "after it",
                                  corpus.tokens().value(), sequence,
                                  tokens_needed(sequence + 1, options.held_out)));
  }
  if (options.sequence < 1 || options.sequence > longest) {
    return user_error(
        "sequence", fmt::to_string(options.sequence),
        fmt::format("1 to {}: of {} tokens {} are held out, and each part must have a sequence and "
                    "the token after it",
                    longest, corpus.tokens().value(), held_out));
  }
  return Sampler(corpus, options, Count(training));
}

Count Sampler::place(std::int64_t step, std::int64_t micro_batch, std::int64_t row) const {
  const auto stream = kStream ^ (static_cast<std::uint64_t>(micro_batch) << kRowBits) ^
                      static_cast<std::uint64_t>(row);
  const CounterRandom random(options_.seed, stream);
  return Count(
      scaled(random.bits(static_cast<std::uint64_t>(step)), training_.value() - options_.sequence));
}

Status Sampler::read_row(Count place, TokenBatch& batch) const {
  const std::size_t filled = batch.tokens.size();
  batch.tokens.resize(filled + static_cast<std::size_t>(batch.columns));
  ++batch.rows;
  return corpus_->read(place, std::span(batch.tokens).subspan(filled));
}

Result<TokenBatch> Sampler::training(std::int64_t step, std::int64_t micro_batch,
                                     std::int64_t rows) const {
  TokenBatch batch = empty_batch(rows, options_.sequence + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    SHARDLIGHT_TRY_STATUS(read_row(place(step, micro_batch, row), batch));
  }
  return batch;
}

Result<TokenBatch> Sampler::held_out(std::int64_t first, std::int64_t rows,
                                     std::int64_t all) const {
  TokenBatch batch = empty_batch(rows, options_.sequence + 1);
  const std::int64_t places = held_out_tokens().value() - options_.sequence;
  for (std::int64_t row = first; row < first + rows; ++row) {
    const double share = static_cast<double>(row % all) / static_cast<double>(all);
    const auto offset = static_cast<std::int64_t>(share * static_cast<double>(places));
    SHARDLIGHT_TRY_STATUS(read_row(training_ + Count(offset), batch));
  }
  return batch;
}

}  // namespace shardlight::data
