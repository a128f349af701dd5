// Typed reading of a Hugging Face config.json: each value is of the type and in the range that
// transformers requires, or an Error naming the key, what stands there and what may. Nothing is
// converted: 768.0, "768" and true are not sizes. Internal to plan; read-only once parsed.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shardlight/base/result.h"
#include "shardlight/layout/dtype.h"

namespace shardlight::plan {

// Above any real size, and small enough that three of them add up in 64 bits.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;
// Each layer is a dozen rows of the table, so this one is bounded by memory, not by arithmetic.
inline constexpr std::int64_t kMostLayers = 10'000;

// A config key, and a second name that transformers' attribute_map lets it have.
struct Key {
  constexpr Key(const char* key_name, const char* second_name = nullptr)  // NOLINT: reads as a name
      : name(key_name), second(second_name) {}
  const char* name;
  const char* second;
};

class HfValues {
 public:
  static Result<HfValues> parse(std::string_view json_text);

  // A whole number from 1 to `max`; absent or null is an error.
  Result<std::int64_t> size(Key key, std::int64_t max = kLargestSize) const;
  // The same, but `absent` where the config has no such key, and `null` where that stands there; a
  // null without a `null` is an error.
  Result<std::int64_t> size_or(Key key, std::int64_t absent,
                               std::optional<std::int64_t> null = std::nullopt) const;
  Result<bool> flag_or(Key key, bool absent) const;
  Result<std::string> text(Key key, const std::string& allowed) const;

  // Whether the key is there and asks for something: not null, false, or empty.
  bool asks_for(const char* key) const;
  // The user error of a key that is there and may not be what it is.
  Failure refuse(const char* key, std::string allowed) const;

  // What `architectures[0]` is in `known`; `absent` where the config lists none.
  Result<std::size_t> architecture(std::span<const std::string> known, std::size_t absent) const;
  // `dtype`, else `torch_dtype`, else float32.
  Result<layout::DType> dtype() const;
  // Outputs of a classification head: the entries of `id2label`, else `num_labels`, else 2.
  Result<std::int64_t> labels() const;

 private:
  explicit HfValues(nlohmann::json object);

  // The value of a key by either name; null where it is absent. Two different values: an error.
  Result<const nlohmann::json*> find(Key key) const;
  Result<const nlohmann::json*> find_present(Key key, const std::string& allowed) const;

  std::shared_ptr<const nlohmann::json> object_;
};

// The error of a width that `heads` attention heads cannot share evenly, if it is one.
Status check_heads_divide(Key width_key, std::int64_t width, Key heads_key, std::int64_t heads);

}  // namespace shardlight::plan
