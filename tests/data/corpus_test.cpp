#include "shardlight/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/scratch.h"

namespace shardlight::data {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

Tokens all_of(const Corpus& corpus) {
  Tokens tokens(static_cast<std::size_t>(corpus.tokens().value()));
  EXPECT_TRUE(corpus.read(Count(0), tokens));
  return tokens;
}

std::string little_endian(const Tokens& tokens, int bytes) {
  std::string text;
  for (const std::int64_t token : tokens) {
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(token >> (8 * i));
  }
  return text;
}

std::string token_file(const std::string& name, const Tokens& tokens, int bytes,
                       const std::string& description) {
  const std::string path = scratch_file(name, little_endian(tokens, bytes));
  scratch_file(name + ".json", description);
  return path;
}

std::string error_of(const std::vector<std::string>& paths) {
  const auto corpus = Corpus::open(paths);
  return corpus ? "" : corpus.error().message();
}

TEST(Corpus, OfTextIsItsBytes) {
  const auto corpus = Corpus::open({scratch_file("text", "ab\n\xC3\xA4\xFF")});
  ASSERT_TRUE(corpus) << corpus.error().message();
  EXPECT_EQ(corpus->vocabulary(), 256);
  EXPECT_TRUE(corpus->is_text());
  EXPECT_EQ(all_of(*corpus), (Tokens{'a', 'b', '\n', 0xC3, 0xA4, 0xFF}));
  EXPECT_EQ(corpus->text_of(Tokens{'b', 0xC3, 0xA4}), "b\xC3\xA4");
}

TEST(Corpus, OfSeveralFilesReadsAcrossTheirEnds) {
  const auto corpus = Corpus::open(
      {scratch_file("one", "abc"), scratch_file("two", "d"), scratch_file("three", "efgh")});
  ASSERT_TRUE(corpus);
  for (std::int64_t first = 0; first < 8; ++first) {
    for (std::int64_t count = 0; first + count <= 8; ++count) {
      Tokens tokens(static_cast<std::size_t>(count));
      ASSERT_TRUE(corpus->read(Count(first), tokens));
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(tokens[i], 'a' + first + i);
    }
  }
}

TEST(Corpus, ReadsTheDefaultTextWhichIsGzipped) {
  const auto corpus = Corpus::open({kDefaultText});
  ASSERT_TRUE(corpus) << corpus.error().message();
  Tokens start(300);
  ASSERT_TRUE(corpus->read(Count(0), start));
  EXPECT_GT(corpus->tokens().value(), 1'000'000);
  EXPECT_THAT(corpus->text_of(start), HasSubstr("Jargon"));
}

TEST(Corpus, OfTokenFilesReadsBothWidths) {
  const auto narrow = Corpus::open(
      {token_file("narrow.u16", {0, 1, 299, 256}, 2, R"({"dtype": "uint16", "vocabulary": 300})")});
  ASSERT_TRUE(narrow) << narrow.error().message();
  EXPECT_EQ(narrow->vocabulary(), 300);
  EXPECT_EQ(all_of(*narrow), (Tokens{0, 1, 299, 256}));
  EXPECT_EQ(narrow->text_of(Tokens{299, 7}), "299 7");
  const auto wide = Corpus::open(
      {token_file("wide.u32", {70'000, 3}, 4, R"({"dtype": "uint32", "vocabulary": 70001})")});
  ASSERT_TRUE(wide) << wide.error().message();
  EXPECT_EQ(all_of(*wide), (Tokens{70'000, 3}));
}

TEST(Corpus, KnowsTheBytesOfTokensThatAreDescribed) {
  const auto corpus = Corpus::open({token_file(
      "pieces.u16", {0, 1, 2}, 2,
      R"({"dtype": "uint16", "vocabulary": 3, "pieces": ["th", "e\u00c3", "\u00a4"]})")});
  ASSERT_TRUE(corpus) << corpus.error().message();
  EXPECT_EQ(corpus->text_of(Tokens{0, 1, 2}), "the\xC3\xA4");
}

TEST(Corpus, NamesTheFileThatIsWrong) {
  EXPECT_THAT(error_of({}), HasSubstr("files: is missing"));
  EXPECT_THAT(error_of({"/no/such"}), HasSubstr("/no/such: 'no file' is not allowed"));
  EXPECT_THAT(error_of({scratch_file("empty", "")}), HasSubstr("empty: '0 bytes' is not allowed"));
  EXPECT_THAT(error_of({testing::TempDir()}), HasSubstr("not a regular file"));
  const std::string good =
      token_file("good.u16", {1}, 2, R"({"dtype": "uint16", "vocabulary": 3})");
  EXPECT_THAT(error_of({good, scratch_file("plain", "x")}),
              HasSubstr("plain: 'text' is not allowed; allowed: what the first file has, uint16"));
  const std::string odd = token_file("odd.u16", {}, 2, R"({"dtype": "uint16", "vocabulary": 3})");
  std::ofstream(odd) << "abc";
  EXPECT_THAT(error_of({odd}), HasSubstr("odd.u16: '3 bytes' is not allowed"));
}

TEST(Corpus, NamesWhatIsWrongInADescription) {
  const auto of = [](const std::string& description) {
    return error_of({token_file("d.u16", {1}, 2, description)});
  };
  EXPECT_THAT(of("{"), HasSubstr("d.u16.json: 'not JSON at byte"));
  EXPECT_THAT(of(R"({"vocabulary": 3})"), HasSubstr("d.u16.json: dtype: is missing"));
  EXPECT_THAT(of(R"({"dtype": "uint32", "vocabulary": 3})"), HasSubstr("allowed: uint16, as"));
  EXPECT_THAT(of(R"({"dtype": "uint16"})"), HasSubstr("vocabulary: is missing"));
  EXPECT_THAT(of(R"({"dtype": "uint16", "vocabulary": 65537})"), HasSubstr("'65537'"));
  EXPECT_THAT(of(R"({"dtype": "uint16", "vocabulary": 2.5})"), HasSubstr("'2.5'"));
  EXPECT_THAT(of(R"({"dtype": "uint16", "vocabulary": 2, "vocabulry": 1})"),
              HasSubstr("key: 'vocabulry' is not allowed; allowed: did you mean vocabulary?"));
  EXPECT_THAT(of(R"({"dtype": "uint16", "vocabulary": 2, "pieces": ["a"]})"), HasSubstr("pieces"));
  EXPECT_THAT(of(R"({"dtype": "uint16", "vocabulary": 1, "pieces": ["\u20ac"]})"),
              HasSubstr("pieces"));
  EXPECT_THAT(error_of({scratch_file("alone.u32", "abcd")}), HasSubstr("alone.u32.json beside it"));
}

TEST(Corpus, NamesTheTokenThatIsNotInTheVocabulary) {
  const std::string path =
      token_file("beyond.u16", {0, 1, 5, 2}, 2, R"({"dtype": "uint16", "vocabulary": 3})");
  const auto corpus = Corpus::open({path});
  Tokens tokens(2);
  EXPECT_TRUE(corpus->read(Count(0), tokens));
  const Status read = corpus->read(Count(1), tokens);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(),
            path + ": token 2: '5' is not allowed; allowed: below the vocabulary, 3");
}

}  // namespace
}  // namespace shardlight::data
