// A report: what a command answers, once, for every form it is shown in. A cell carries the exact
// value and the text a person reads, so the table, --json and --csv cannot differ.
// A value, built by plan_report.h and paper_report.h; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shardlight/plan/advice.h"

namespace shardlight::cli {

// Nothing (unknown), a flag, a whole number, a number, a text.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

struct Cell {
  std::string shown;
  Value value;
};

struct Column {
  std::string key;    // in --json and --csv, with its unit: "total_bytes"
  std::string title;  // in the table: "total"
  bool left = false;  // text is aligned left, numbers right
  bool in_text = true;
};

struct Table {
  std::string key;
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> notes;  // below the table, and in --json
  // In --csv the tables marked so are joined side by side, row by row; the others are left out.
  bool in_csv = true;
};

struct Report {
  std::string headline;
  std::vector<std::pair<std::string, Value>> settings;
  std::vector<Table> tables;
  std::vector<plan::Advice> advice;
};

struct Style {
  bool colour = false;
};

std::string as_text(const Report& report, Style style);
std::string as_json(const Report& report);
std::string as_csv(const Report& report);

}  // namespace shardlight::cli
