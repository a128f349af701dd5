#include "shardlight/data/corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "shardlight/data/token_file.h"
#include "shardlight/io/file.h"
#include "shardlight/io/gzip.h"
#include "shardlight/io/mapped_file.h"

namespace shardlight::data {
namespace {

constexpr Bytes kLargestUnzipped{std::int64_t{4} << 30};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string kind_of(const TokenFormat& format) {
  if (format.bytes_per_token == 1) return "text";
  return fmt::format("uint{} tokens of a vocabulary of {}", 8 * format.bytes_per_token,
                     format.vocabulary);
}

// Of a little-endian number of `width` bytes.
std::int64_t number_at(const std::byte* at, std::int64_t width) {
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    number |= std::to_integer<std::int64_t>(at[i]) << (8 * i);
  }
  return number;
}

}  // namespace

struct Corpus::Format : TokenFormat {};

struct Corpus::Segment {
  std::string path;
  std::variant<std::string, io::MappedFile> content;
  Count first;  // the number in the corpus of its first token
  Count tokens;

  std::span<const std::byte> bytes() const {
    const auto* unzipped = std::get_if<std::string>(&content);
    return unzipped != nullptr ? bytes_of(*unzipped) : std::get<io::MappedFile>(content).bytes();
  }
};

Corpus::Corpus() = default;
Corpus::Corpus(Corpus&&) noexcept = default;
Corpus& Corpus::operator=(Corpus&&) noexcept = default;
Corpus::~Corpus() = default;

std::int64_t Corpus::vocabulary() const { return format_->vocabulary; }
bool Corpus::is_text() const { return format_->bytes_per_token == 1; }

Result<Corpus> Corpus::open(const std::vector<std::string>& paths) {
  Corpus corpus;
  for (const std::string& path : paths) {
    if (io::path_kind(path) == io::PathKind::kMissing) {
      return user_error(path, "no file", "a file that is there");
    }
    SHARDLIGHT_TRY(auto described, token_format(path));
    const TokenFormat format = described.value_or(TokenFormat{});
    if (!corpus.format_) {
      corpus.format_ = std::make_unique<Format>(Format{format});
    } else if (format != *corpus.format_) {
      return user_error(path, kind_of(format),
                        fmt::format("what the first file has, {}", kind_of(*corpus.format_)));
    }
    Segment segment{.path = path, .content = std::string(), .first = corpus.tokens_, .tokens = {}};
    if (path.ends_with(".gz")) {
      SHARDLIGHT_TRY(segment.content, io::read_gzip(path, kLargestUnzipped));
    } else {
      SHARDLIGHT_TRY(segment.content, io::MappedFile::open(path));
    }
    const auto bytes = static_cast<std::int64_t>(segment.bytes().size());
    if (bytes == 0 || bytes % format.bytes_per_token != 0) {
      return user_error(path, fmt::format("{} bytes", bytes),
                        fmt::format("a whole number of tokens of {} bytes, at least one",
                                    format.bytes_per_token));
    }
    segment.tokens = Count(bytes / format.bytes_per_token);
    corpus.tokens_ += segment.tokens;
    corpus.segments_.push_back(std::move(segment));
  }
  if (corpus.segments_.empty()) return user_error("files", "", "at least one file");
  return corpus;
}

Status Corpus::read(Count first, std::span<std::int64_t> target) const {
  const std::int64_t width = format_->bytes_per_token;
  // The last segment that does not begin behind `first`.
  auto segment = std::prev(std::upper_bound(
      segments_.begin(), segments_.end(), first,
      [](Count place, const Segment& candidate) { return place < candidate.first; }));
  for (std::int64_t place = first.value(); !target.empty(); ++segment) {
    const std::int64_t begin = place - segment->first.value();
    const std::int64_t count =
        std::min(segment->tokens.value() - begin, static_cast<std::int64_t>(target.size()));
    const std::byte* at = segment->bytes().data() + begin * width;
    for (std::int64_t i = 0; i < count; ++i, at += width) {
      const std::int64_t token = number_at(at, width);
      if (token >= format_->vocabulary) {
        return user_error(fmt::format("{}: token {}", segment->path, begin + i),
                          fmt::to_string(token),
                          fmt::format("below the vocabulary, {}", format_->vocabulary));
      }
      target[static_cast<std::size_t>(i)] = token;
    }
    target = target.subspan(static_cast<std::size_t>(count));
    place += count;
  }
  return {};
}

std::string Corpus::text_of(std::span<const std::int64_t> tokens) const {
  if (!is_text() && format_->pieces.empty()) return fmt::format("{}", fmt::join(tokens, " "));
  std::string text;
  for (const std::int64_t token : tokens) {
    if (is_text()) {
      text += static_cast<char>(token);
    } else {
      text += format_->pieces[static_cast<std::size_t>(token)];
    }
  }
  return text;
}

}  // namespace shardlight::data
