#include "shardlight/base/printable.h"

#include <fmt/format.h>

namespace shardlight {
namespace {

// How many bytes the UTF-8 character at `at` has; 0 where there is none.
std::size_t character_size(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xc2 ? 0
                           : first < 0xe0 ? 2
                           : first < 0xf0 ? 3
                           : first < 0xf5 ? 4
                                          : 0;
  if (size == 0 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (byte(at + i) >> 6U != 2) return 0;
  }
  return size;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  const bool c1 =
      character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return first < 0x20 || first == 0x7f || c1;
}

std::string escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

std::string printable(std::string_view text, bool keep_lines) {
  if (!keep_lines && text.size() > kPrintableBytes) {
    return printable(text.substr(0, kPrintableBytes / 2)) + " … " +
           printable(text.substr(text.size() - kPrintableBytes / 2));
  }
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text, at);
    const std::string_view character = text.substr(at, size == 0 ? 1 : size);
    const bool kept = size > 0 && (!is_control(character) || (keep_lines && character == "\n"));
    out += kept ? std::string(character) : escaped(character);
    at += character.size();
  }
  return out;
}

}  // namespace shardlight
