#include "shardlight/plan/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace shardlight::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 128;
constexpr std::size_t kLongestShown = 60;  // bytes of a string in an error

// Reads the text once, building nothing, and stops at the first thing that must not be there.
class Inspector final : public json::json_sax_t {
 public:
  explicit Inspector(const std::string& field) : field_(field) {}
  Status take() && { return std::move(found_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }

  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Level& level = levels_.back();
    level.at = name;
    if (level.keys.insert(name).second) return true;
    std::string path;
    for (const Level& outer : levels_) {
      if (!path.empty() && !outer.at.empty()) path += '.';
      path += outer.at;
    }
    return stop(path.empty() ? field_ : path, "a second one", "each key once");
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return stop(field_, fmt::format("not JSON at byte {}", position), "a JSON object");
  }

 private:
  struct Level {
    std::string at;  // the key being read; stays empty in a list
    std::set<std::string> keys;
  };

  bool open() {
    if (levels_.size() == kDeepest) {
      return stop(field_, "deeper nesting", fmt::format("JSON nested at most {} deep", kDeepest));
    }
    levels_.emplace_back();
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  bool stop(const std::string& field, std::string value, std::string allowed) {
    found_ = user_error(field, std::move(value), std::move(allowed));
    return false;
  }

  const std::string& field_;
  std::vector<Level> levels_;
  Status found_;
};

}  // namespace

Result<json> parse_json_object(const std::string& field, std::string_view text) {
  // The parser would take a NUL for the end of the text, and leave what follows unread.
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    return user_error(field, fmt::format("not JSON at byte {}", nul + 1), "a JSON object");
  }
  Inspector inspector(field);
  json::sax_parse(text, &inspector);
  SHARDLIGHT_TRY_STATUS(std::move(inspector).take());
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return user_error(field, shown(value), "a JSON object");
  return value;
}

std::string shown(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (!value.is_string()) return value.dump();
  std::string text = value.get_ref<const std::string&>();
  if (text.size() > kLongestShown) {
    std::size_t end = kLongestShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text.resize(end);
    text += "…";
  }
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace shardlight::plan
