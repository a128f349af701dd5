#include "shardlight/plan/display.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace shardlight::plan {
namespace {

// A number of 10^-decimals as text without trailing zeros: 150, 2 is "1.5".
std::string as_decimal(std::int64_t scaled, int decimals) {
  std::int64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  std::string text = fmt::format("{}", scaled / scale);
  if (decimals == 0 || scaled % scale == 0) return text;
  std::string fraction = fmt::format("{:0{}}", scaled % scale, decimals);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text + "." + fraction;
}

// value / unit, half up to one decimal.
std::string one_decimal(std::int64_t value, std::int64_t unit) {
  return as_decimal(Share(Bytes(value)).scaled_half_up(Bytes(unit), 10), 1);
}

constexpr std::array<ByteUnit, 4> kByteUnits = {
    {{"GB", Bytes(kGigabyte)}, {"MB", Bytes(1'000'000)}, {"kB", Bytes(1'000)}, {"B", Bytes(1)}}};

}  // namespace

std::string show_in(Bytes unit, Share value) {
  if (value >= Share(unit * 100)) return fmt::format("{}", value.floor().value() / unit.value());
  const std::string text = value >= Share(unit * 10)
                               ? as_decimal(value.scaled_half_up(unit, 10), 1)
                               : as_decimal(value.scaled_half_up(unit, 100), 2);
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
    if (count.value() >= unit - unit / 20'000) return one_decimal(count.value(), unit) + name;
  }
  return fmt::format("{}", count.value());
}

std::string show_billions(Count count) { return one_decimal(count.value(), kGigabyte) + "B"; }

std::string show_paper_count(Count count) {
  constexpr std::int64_t kTrillion = 1'000 * kGigabyte;
  if (count.value() >= kTrillion / 2) return one_decimal(count.value(), kTrillion) + "T";
  return show_billions(count);
}

std::string show_ratio(double ratio) {
  if (ratio >= 100) return fmt::format("{:.0f}", std::floor(ratio + 0.5));
  const int scale = ratio >= 10 ? 10 : 100;
  const auto scaled = static_cast<std::int64_t>(std::floor(ratio * scale + 0.5));
  const std::string text = as_decimal(scaled, scale == 10 ? 1 : 2);
  return text == "0" && ratio > 0 ? "<0.01" : text;
}

std::string show_seconds(Seconds seconds) {
  // What would round to 1000 of a unit is shown as 1 of the next.
  constexpr double kNext = 0.9995;
  const double value = seconds.count();
  if (value >= kNext) return show_ratio(value) + " s";
  if (value >= kNext * 1e-3) return show_ratio(value * 1e3) + " ms";
  return show_ratio(value * 1e6) + " us";
}

}  // namespace shardlight::plan
