// The report as a person reads it: aligned columns, bold titles on a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "shardlight/cli/report.h"

namespace shardlight::cli {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr const char* kGap = "  ";

std::string bold(const std::string& text, Style style) {
  return style.colour ? "\x1b[1m" + text + "\x1b[0m" : text;
}

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = table.columns[i].title.size();
    for (const auto& row : table.rows) width = std::max(width, row[i].shown.size());
    widths.push_back(width);
  }
  return widths;
}

// Breaks at spaces; the lines after the first start with `indent`.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::string out, line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > kLineWidth) {
      out += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    at = end + 1;
  }
  return out + line + "\n";
}

std::string lines_of(const Table& table, Style style) {
  const std::vector<std::size_t> widths = widths_of(table);
  const auto line = [&](const auto& text_of) {
    std::string out;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (!table.columns[i].in_text) continue;
      if (i > 0) out += kGap;
      out += table.columns[i].left ? fmt::format("{:<{}}", text_of(i), widths[i])
                                   : fmt::format("{:>{}}", text_of(i), widths[i]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out;
  if (!table.title.empty()) out += bold(table.title, style) + "\n";
  out += line([&](std::size_t i) { return table.columns[i].title; }) + "\n";
  for (const auto& row : table.rows) {
    out += line([&](std::size_t i) { return row[i].shown; }) + "\n";
  }
  for (const std::string& note : table.notes) out += wrapped(note, "");
  return out;
}

}  // namespace

std::string as_text(const Report& report, Style style) {
  std::string out = wrapped(report.headline, "");
  for (const Table& table : report.tables) out += "\n" + lines_of(table, style);
  if (!report.advice.empty()) {
    out += "\n" + bold("Advice", style) + "\n";
    for (const plan::Advice& advice : report.advice) out += wrapped("- " + advice.text, "  ");
  }
  return out;
}

}  // namespace shardlight::cli
