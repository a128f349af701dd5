// Cells of a report from the kinds of numbers a plan has: the text by the display rule
// (plan/display.h) beside the exact value. Where a number is not known the text is "?" and the
// value nothing. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "shardlight/cli/report.h"
#include "shardlight/plan/display.h"

namespace shardlight::cli {

Cell text_cell(const std::string& text);
Cell count_cell(Count count);  // "7.5B"
Cell number_cell(std::int64_t number);
Cell ratio_cell(double ratio, const std::string& suffix = "");
// Bytes shown in `unit`; whole ones are whole numbers in --json, shares may have a fraction.
Cell bytes_cell(plan::Share bytes, plan::ByteUnit unit);
Cell bytes_cell(std::optional<plan::Share> bytes, plan::ByteUnit unit);
Cell bytes_cell(std::optional<Bytes> bytes, plan::ByteUnit unit);  // "?" where unknown
Cell seconds_cell(std::optional<Seconds> seconds);

Value exact_value(plan::Share bytes);

}  // namespace shardlight::cli
