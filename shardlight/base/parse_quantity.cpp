#include "shardlight/base/parse_quantity.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "shardlight/base/arithmetic.h"

namespace shardlight {
namespace {

constexpr int kMaxExponent = 30;
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

struct Suffix {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::array<Suffix, 11> kCountSuffixes = {{{"", 1},
                                                    {"k", 1'000},
                                                    {"m", 1'000'000},
                                                    {"b", 1'000'000'000},
                                                    {"g", 1'000'000'000},
                                                    {"t", 1'000'000'000'000},
                                                    {"K", 1'000},
                                                    {"M", 1'000'000},
                                                    {"B", 1'000'000'000},
                                                    {"G", 1'000'000'000},
                                                    {"T", 1'000'000'000'000}}};
constexpr std::array<Suffix, 9> kByteSuffixes = {{{"B", 1},
                                                  {"kB", 1'000},
                                                  {"MB", 1'000'000},
                                                  {"GB", 1'000'000'000},
                                                  {"TB", 1'000'000'000'000},
                                                  {"KiB", std::int64_t{1} << 10},
                                                  {"MiB", std::int64_t{1} << 20},
                                                  {"GiB", std::int64_t{1} << 30},
                                                  {"TiB", std::int64_t{1} << 40}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// An unsigned decimal: digits x 10^exponent, and the text after it.
struct Decimal {
  std::int64_t digits = 0;
  std::int64_t exponent = 0;
  std::string_view rest;
};

// Appends one digit; false when it no longer fits.
bool push_digit(std::int64_t& digits, char c) {
  const auto shifted = checked_multiply(digits, 10);
  const auto sum = shifted ? checked_add(*shifted, c - '0') : std::nullopt;
  if (sum) digits = *sum;
  return sum.has_value();
}

// The exponent after an e: its value, and how many characters it took; nothing if it is none.
std::optional<std::pair<int, std::size_t>> read_exponent(std::string_view text) {
  const bool plus = text.starts_with('+');
  const std::string_view number = text.substr(plus ? 1 : 0);
  if (number.empty() || (!is_digit(number[0]) && (plus || number[0] != '-'))) return std::nullopt;
  int power = 0;
  const auto [stop, code] = std::from_chars(number.data(), number.data() + number.size(), power);
  if (code != std::errc() || power > kMaxExponent || power < -kMaxExponent) return std::nullopt;
  return std::pair(power, static_cast<std::size_t>(stop - text.data()));
}

std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal decimal;
  std::size_t at = 0;
  bool fraction = false, seen = false, full = false;
  for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !fraction)); ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    seen = true;
    if (!full && push_digit(decimal.digits, text[at])) {
      decimal.exponent -= fraction ? 1 : 0;
      continue;
    }
    // No room for more digits: zeros at the end of a fraction may go, nothing else.
    full = true;
    if (!fraction || text[at] != '0') return std::nullopt;
  }
  if (!seen) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const auto exponent = read_exponent(text.substr(at + 1));
    if (!exponent) return std::nullopt;
    decimal.exponent += exponent->first;
    at += 1 + exponent->second;
  }
  decimal.rest = text.substr(at);
  return decimal;
}

// The nearest double for up to 15 digits and powers up to 22, where both operands are exact.
double to_double(const Decimal& decimal) {
  const auto digits = static_cast<double>(decimal.digits);
  const auto power = static_cast<double>(decimal.exponent);
  return power < 0 ? digits / std::pow(10.0, -power) : digits * std::pow(10.0, power);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// digits x 10^exponent x factor, exactly, or nothing.
std::optional<std::int64_t> whole_value(const Decimal& decimal, std::int64_t factor) {
  auto value = checked_multiply(decimal.digits, factor);
  // Multiplying first may overflow where dividing first would not: 7.5000000000000000000 B.
  std::int64_t exponent = decimal.exponent;
  std::int64_t digits = decimal.digits;
  while (!value && exponent < 0 && digits % 10 == 0) {
    digits /= 10;
    ++exponent;
    value = checked_multiply(digits, factor);
  }
  for (; value && exponent > 0 && *value != 0; --exponent) value = checked_multiply(*value, 10);
  for (; value && exponent < 0; ++exponent) {
    if (*value % 10 != 0) return std::nullopt;
    *value /= 10;
  }
  return value;
}

std::optional<std::int64_t> read_whole(std::string_view text, std::span<const Suffix> suffixes) {
  const auto decimal = read_decimal(trimmed(text));
  if (!decimal) return std::nullopt;
  const std::string_view name = trimmed(decimal->rest);
  for (const Suffix& suffix : suffixes) {
    if (suffix.name == name) return whole_value(*decimal, suffix.factor);
  }
  return std::nullopt;
}

}  // namespace

Result<std::int64_t> parse_count(const std::string& field, std::string_view text,
                                 IntegerRange range) {
  const auto value = read_whole(text, kCountSuffixes);
  if (!value || *value < range.min || *value > range.max) {
    return user_error(field, std::string(text),
                      fmt::format("a whole number from {} to {}, as in 512, 7.5e9 or 7.5B "
                                  "(suffixes K, M, B or G, T)",
                                  range.min, range.max));
  }
  return *value;
}

Result<Bytes> parse_bytes(const std::string& field, std::string_view text, IntegerRange range) {
  const auto value = read_whole(text, kByteSuffixes);
  if (!value || *value < range.min || *value > range.max) {
    return user_error(
        field, std::string(text),
        fmt::format("{} to {} bytes with their unit, as in 32GB (10^9) or 80GiB (2^30)", range.min,
                    range.max));
  }
  return Bytes(*value);
}

Result<std::int64_t> parse_bytes_per_second(const std::string& field, std::string_view text) {
  std::string_view amount = trimmed(text);
  if (amount.ends_with("/s")) amount.remove_suffix(2);
  const auto value = read_whole(amount, kByteSuffixes);
  if (!value || *value < 1 || *value > kMax) {
    return user_error(field, std::string(text),
                      "a whole number of bytes a second, 1 to 2^63 - 1, as in 12.5GB/s");
  }
  return *value;
}

Result<Seconds> parse_seconds(const std::string& field, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kSuffixes = {
      {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}};
  const auto decimal = read_decimal(trimmed(text));
  if (decimal) {
    for (const auto& [name, factor] : kSuffixes) {
      if (trimmed(decimal->rest) != name) continue;
      return Seconds(to_double(*decimal) * factor);
    }
  }
  return user_error(field, std::string(text),
                    "a time of 0 or more with its unit, as in 5us or 1ms");
}

Result<double> parse_number(const std::string& field, std::string_view text, double min,
                            double max) {
  const auto decimal = read_decimal(trimmed(text));
  if (!decimal || !decimal->rest.empty() || to_double(*decimal) < min ||
      to_double(*decimal) > max) {
    return user_error(field, std::string(text), fmt::format("a number from {} to {}", min, max));
  }
  return to_double(*decimal);
}

}  // namespace shardlight
