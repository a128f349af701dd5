// What a model is trained on: the tokens of one or more files, one after another. A text file is
// its bytes (vocabulary 256), gzipped or not; a token file (.u16, .u32) says its own vocabulary.
// Files are mapped, so a corpus may be larger than memory; only gzipped ones are held in it.
// Owns its files; read-only once open, so any number of threads may read.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight::data {

// The text that is used where none is named: that of Debian's package jargon-text.
inline constexpr const char* kDefaultText = "/usr/share/doc/jargon-text/jargon.txt.gz";

class Corpus {
 public:
  // Errors: user errors by file (one that is missing, is empty, or has other tokens than the first;
  // a token file's description); environment errors for what cannot be read. At least one path.
  static Result<Corpus> open(const std::vector<std::string>& paths);

  Corpus(Corpus&& other) noexcept;
  Corpus& operator=(Corpus&& other) noexcept;
  ~Corpus();

  Count tokens() const { return tokens_; }
  std::int64_t vocabulary() const;
  bool is_text() const;  // its tokens are bytes

  // Tokens first, first + 1, … into `target`; all of them must be there. Errors (user): a token
  // that is not below the vocabulary, by file and place.
  Status read(Count first, std::span<std::int64_t> target) const;

  // The bytes that tokens stand for; their numbers, with spaces between, where nobody knows.
  std::string text_of(std::span<const std::int64_t> tokens) const;

 private:
  struct Segment;
  struct Format;

  Corpus();

  std::unique_ptr<Format> format_;
  std::vector<Segment> segments_;
  Count tokens_;
};

}  // namespace shardlight::data
