// The report for programs: JSON with everything, CSV with the rows alone.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shardlight/cli/report.h"

namespace shardlight::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

Json json_of(const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      object[table.columns[i].key] = json_of(row[i].value);
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

// RFC 4180: quoted where needed, quotes doubled. A number is written as JSON writes it.
std::string csv_field(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "";
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return json_of(value).dump();
  if (text->find_first_of(",\"\r\n") == std::string::npos) return *text;
  std::string quoted = "\"";
  for (const char c : *text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

bool seen_before(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

std::string as_json(const Report& report) {
  Json root = Json::object();
  for (const auto& [key, value] : report.settings) root["settings"][key] = json_of(value);
  Json notes = Json::array();
  for (const Table& table : report.tables) {
    root[table.key] = json_of(table);
    for (const std::string& note : table.notes) notes.push_back(note);
  }
  if (!report.advice.empty()) root["advice"] = Json::array();
  for (const plan::Advice& advice : report.advice) {
    Json cites = Json::object();
    for (const plan::Citation& citation : advice.cites) cites[citation.name] = citation.value;
    root["advice"].push_back({{"id", advice.id}, {"text", advice.text}, {"cites", cites}});
  }
  root["notes"] = std::move(notes);
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string as_csv(const Report& report) {
  std::vector<std::string> keys;
  std::vector<std::string> lines;
  for (const Table& table : report.tables) {
    if (!table.in_csv) continue;
    lines.resize(std::max(lines.size(), table.rows.size()));
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
      const std::string& key = table.columns[column].key;
      if (seen_before(keys, key)) continue;  // the row's name, repeated by the joined table
      for (std::size_t row = 0; row < table.rows.size(); ++row) {
        lines[row] += (keys.empty() ? "" : ",") + csv_field(table.rows[row][column].value);
      }
      keys.push_back(key);
    }
  }
  std::string out;
  for (std::size_t i = 0; i < keys.size(); ++i) out += (i > 0 ? "," : "") + keys[i];
  for (const std::string& line : lines) out += "\n" + line;
  return out + "\n";
}

}  // namespace shardlight::cli
