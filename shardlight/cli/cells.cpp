#include "shardlight/cli/cells.h"

#include <fmt/format.h>

namespace shardlight::cli {
namespace {

const Cell kUnknown{"?", {}};

}  // namespace

Value exact_value(plan::Share bytes) {
  if (bytes.whole()) return bytes.floor().value();
  return bytes.to_double();
}

Cell text_cell(const std::string& text) { return {text, text}; }

Cell count_cell(Count count) { return {plan::show_count(count), count.value()}; }

Cell number_cell(std::int64_t number) { return {fmt::to_string(number), number}; }

Cell ratio_cell(double ratio, const std::string& suffix) {
  return {plan::show_ratio(ratio) + suffix, ratio};
}

Cell bytes_cell(plan::Share bytes, plan::ByteUnit unit) {
  return {plan::show_in(unit.bytes, bytes), exact_value(bytes)};
}

Cell bytes_cell(std::optional<plan::Share> bytes, plan::ByteUnit unit) {
  return bytes ? bytes_cell(*bytes, unit) : kUnknown;
}

Cell bytes_cell(std::optional<Bytes> bytes, plan::ByteUnit unit) {
  return bytes ? bytes_cell(plan::Share(*bytes), unit) : kUnknown;
}

Cell seconds_cell(std::optional<Seconds> seconds) {
  return seconds ? Cell{plan::show_seconds(*seconds), seconds->count()} : kUnknown;
}

}  // namespace shardlight::cli
