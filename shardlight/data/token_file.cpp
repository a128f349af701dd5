#include "shardlight/data/token_file.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "shardlight/base/nearest.h"
#include "shardlight/io/file.h"
#include "shardlight/plan/json_text.h"

namespace shardlight::data {
namespace {

using Json = nlohmann::json;

constexpr Bytes kLargestDescription{std::int64_t{64} << 20};

struct Width {
  const char* suffix;
  const char* dtype;
  std::int64_t bytes;
};
constexpr std::array<Width, 2> kWidths = {{{".u16", "uint16", 2}, {".u32", "uint32", 4}}};

// A piece is written as a text whose code points, all below 256, are its bytes.
std::optional<std::string> bytes_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      bytes += utf8[i];
    } else if (lead < 0xC4 && i + 1 < utf8.size()) {  // C2 and C3 lead U+0080 to U+00FF
      const auto next = static_cast<unsigned char>(utf8[++i]);
      bytes += static_cast<char>((lead & 0x03U) << 6U | (next & 0x3FU));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

Status read_pieces(const Json& list, TokenFormat& format) {
  const std::string allowed =
      fmt::format("a list of {} texts, one a token, whose characters up to U+00FF are bytes",
                  format.vocabulary);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(format.vocabulary)) {
    return user_error("pieces", plan::shown(list), allowed);
  }
  for (const Json& piece : list) {
    const auto bytes = piece.is_string() ? bytes_of(piece.get<std::string>()) : std::nullopt;
    if (!bytes) return user_error("pieces", plan::shown(piece), allowed);
    format.pieces.push_back(*bytes);
  }
  return {};
}

Result<TokenFormat> read_description(const std::string& text, const Width& width) {
  SHARDLIGHT_TRY(const Json json, plan::parse_json_object("", text));
  const std::vector<std::string> keys = {"dtype", "vocabulary", "pieces"};
  for (const auto& [key, value] : json.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return user_error("key", key, one_of(keys, key));
    }
  }
  const auto found = [&](const char* key) {
    const auto at = json.find(key);
    return at == json.end() ? Json() : *at;
  };
  const Json dtype = found("dtype"), vocabulary = found("vocabulary");
  if (dtype != width.dtype) {
    return user_error("dtype", dtype.is_null() ? "" : plan::shown(dtype),
                      fmt::format("{}, as the name ends in {}", width.dtype, width.suffix));
  }
  const std::int64_t most = std::int64_t{1} << (8 * std::min<std::int64_t>(width.bytes, 3));
  TokenFormat format{.bytes_per_token = width.bytes};
  if (!vocabulary.is_number_integer() || vocabulary < 1 || vocabulary > most) {
    return user_error("vocabulary", vocabulary.is_null() ? "" : plan::shown(vocabulary),
                      fmt::format("a whole number from 1 to {}", most));
  }
  format.vocabulary = vocabulary.get<std::int64_t>();
  const auto pieces = json.find("pieces");
  if (pieces != json.end()) SHARDLIGHT_TRY_STATUS(read_pieces(*pieces, format));
  return format;
}

}  // namespace

Result<std::optional<TokenFormat>> token_format(const std::string& path) {
  for (const Width& width : kWidths) {
    if (!path.ends_with(width.suffix)) continue;
    const std::string description = path + ".json";
    if (io::path_kind(description) == io::PathKind::kMissing) {
      return user_error(path, "",
                        fmt::format("a token file only with {} beside it, which "
                                    "examples/tokenize.py writes",
                                    description));
    }
    SHARDLIGHT_TRY(const std::string text, io::read_file(description, kLargestDescription));
    auto format = read_description(text, width);
    if (!format) return Failure(std::move(format).error().within(description, ": "));
    return std::move(*format);
  }
  return std::optional<TokenFormat>();
}

}  // namespace shardlight::data
