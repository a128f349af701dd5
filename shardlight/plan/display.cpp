#include "shardlight/plan/display.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace shardlight::plan {
namespace {

// floor(value / unit * 10^decimals + 1/2), as text without trailing zeros.
std::string half_up(WideInteger value, WideInteger unit, int decimals) {
  std::int64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  const auto scaled = static_cast<std::int64_t>((value * scale * 2 + unit) / (unit * 2));
  std::string text = fmt::format("{}", scaled / scale);
  if (decimals == 0 || scaled % scale == 0) return text;
  std::string fraction = fmt::format("{:0{}}", scaled % scale, decimals);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text + "." + fraction;
}

constexpr std::array<ByteUnit, 4> kByteUnits = {
    {{"GB", Bytes(kGigabyte)}, {"MB", Bytes(1'000'000)}, {"kB", Bytes(1'000)}, {"B", Bytes(1)}}};

}  // namespace

std::string show_in(Bytes unit, Share value) {
  // A half of a shown digit is a whole number of bytes for every unit of 200 bytes and more, so
  // rounding the whole bytes below is exact there; below, bytes themselves are shown.
  const std::int64_t bytes = value.floor().value();
  const std::int64_t each = unit.value();
  if (bytes / 100 >= each) return fmt::format("{}", bytes / each);
  const std::string text = half_up(bytes, each, bytes / 10 >= each ? 1 : 2);
  return text == "0" && value > Share() ? "<0.01" : text;
}

std::string show_gb(Share value) { return show_in(Bytes(kGigabyte), value); }

ByteUnit unit_for(Share largest) {
  for (const ByteUnit& unit : kByteUnits) {
    if (largest.floor() >= unit.bytes) return unit;
  }
  return kByteUnits.back();
}

std::string show_bytes(Share value) {
  const ByteUnit unit = unit_for(value);
  return fmt::format("{} {}", show_in(unit.bytes, value), unit.name);
}

std::string show_count(Count count) {
  constexpr std::array<std::pair<std::int64_t, const char*>, 4> kUnits = {
      {{1'000'000'000'000, "T"}, {1'000'000'000, "B"}, {1'000'000, "M"}, {1'000, "K"}}};
  for (const auto& [unit, name] : kUnits) {
    // 999,950 and more already round to a thousand of the smaller unit: "1M", not "1000K".
    if (count.value() >= unit - unit / 20'000) return half_up(count.value(), unit, 1) + name;
  }
  return fmt::format("{}", count.value());
}

std::string show_billions(Count count) { return half_up(count.value(), kGigabyte, 1) + "B"; }

std::string show_paper_count(Count count) {
  constexpr std::int64_t kTrillion = 1'000 * kGigabyte;
  if (count.value() >= kTrillion / 2) return half_up(count.value(), kTrillion, 1) + "T";
  return show_billions(count);
}

std::string show_ratio(double ratio) {
  const int decimals = ratio >= 100 ? 0 : ratio >= 10 ? 1 : 2;
  // Fixed point to four more digits than shown, then half up on the whole number.
  return half_up(std::llround(ratio * 1e6), 1'000'000, decimals);
}

std::string show_seconds(Seconds seconds) {
  const double value = seconds.count();
  if (value >= 1) return show_ratio(value) + " s";
  if (value >= 1e-3) return show_ratio(value * 1e3) + " ms";
  return show_ratio(value * 1e6) + " us";
}

}  // namespace shardlight::plan
