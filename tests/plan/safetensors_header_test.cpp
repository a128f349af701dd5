#include "shardlight/plan/safetensors_header.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shardlight::plan {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json tensor(const std::string& dtype, const json& shape, std::int64_t begin, std::int64_t end) {
  return {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

Result<Model> read(const std::string& header, std::int64_t data_size) {
  return model_from_safetensors_header(header, Bytes(data_size), "m");
}

// Two tensors, against the order of their names: b has bytes 0-24, a 24-28.
json good() { return {{"a", tensor("BF16", {2}, 24, 28)}, {"b", tensor("F32", {2, 3}, 0, 24)}}; }

void expect_refused(const std::string& header, std::int64_t data_size, const std::string& field,
                    const std::string& value, const std::string& allowed) {
  const auto model = read(header, data_size);
  ASSERT_FALSE(model) << header;
  EXPECT_EQ(model.error().category(), ErrorCategory::kUser);
  EXPECT_EQ(model.error().field(), field) << model.error().message();
  EXPECT_EQ(model.error().value(), value) << model.error().message();
  EXPECT_THAT(model.error().allowed(), HasSubstr(allowed));
}

TEST(SafetensorsHeader, RowsFollowTheData) {
  const auto model = read(good().dump(), 28);
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ(model->table->size(), 2);
  EXPECT_EQ((*model->table)[0].name(), "b");
  EXPECT_THAT((*model->table)[0].shape, ElementsAre(2, 3));
  EXPECT_EQ((*model->table)[0].options.dtype, layout::DType::kFloat32);
  EXPECT_EQ((*model->table)[1].name(), "a");
  EXPECT_EQ((*model->table)[1].options.dtype, layout::DType::kBFloat16);
  EXPECT_EQ(model->parameters.value(), 6 + 2);
  EXPECT_FALSE(model->shape);
}

TEST(SafetensorsHeader, TakesScalarsEmptyTensorsMetadataPaddingAndNoTensors) {
  const json header = {{"__metadata__", {{"format", "pt"}}},
                       {"scalar", tensor("F64", json::array(), 0, 8)},
                       {"y", tensor("I8", {3, 0}, 8, 8)},
                       {"x", tensor("F32", {0}, 8, 8)},
                       {"last", tensor("BOOL", {1}, 8, 9)}};
  const auto model = read(header.dump() + "    ", 9);
  ASSERT_TRUE(model) << model.error().message();
  std::vector<std::string> names;
  for (const auto& parameter : model->table->parameters()) names.push_back(parameter.name());
  EXPECT_THAT(names, ElementsAre("scalar", "x"));  // integers and flags are buffers
  EXPECT_EQ(model->parameters.value(), 1);
  const auto empty = read("{}", 0);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->parameters.value(), 0);
}

TEST(SafetensorsHeader, KnowsEachElementTypeOfTheLayout) {
  for (int i = 0; i <= static_cast<int>(layout::DType::kBool); ++i) {
    const auto dtype = static_cast<layout::DType>(i);
    const std::int64_t bytes = layout::bytes_per_element(dtype).value();
    const std::string name(layout::safetensors_name(dtype));
    const auto model = read(json{{"t", tensor(name, {1}, 0, bytes)}}.dump(), bytes);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->table->size(), layout::is_floating(dtype) ? 1 : 0) << name;
    if (layout::is_floating(dtype)) {
      EXPECT_EQ((*model->table)[0].options.dtype, dtype);
    }
  }
}

TEST(SafetensorsHeader, NamesTheTensorAndTheKey) {
  const auto refused = [](const std::string& key, const json& value, const std::string& field,
                          const std::string& shown, const std::string& allowed) {
    json header = good();
    header["b"][key] = value;
    expect_refused(header.dump(), 28, field, shown, allowed);
  };
  refused("dtype", "F31", "b.dtype", "\"F31\"", "did you mean F32?");
  refused("dtype", 32, "b.dtype", "32", "F64, F32");
  refused("shape", 6, "b.shape", "6", "a list of whole numbers");
  refused("shape", {2, -3}, "b.shape[1]", "-3", "a whole number from 0 to");
  refused("shape", {2, 3.0}, "b.shape[1]", "3.0", "a whole number from 0 to");
  refused("shape", {2, 4}, "b.data_offsets", "[0, 24]", "32 bytes apart");
  refused("shape", {1LL << 40, 1LL << 40}, "b.shape", "[1099511627776, 1099511627776]",
          "bytes in all parameters");
  refused("data_offsets", {0, 24, 28}, "b.data_offsets", "3 numbers", "two numbers");
  refused("data_offsets", {24, 0}, "b.data_offsets", "[24, 0]", "the first not above the second");
  refused("data_offsets", {0, 18446744073709551615ULL}, "b.data_offsets[1]", "18446744073709551615",
          "9223372036854775807");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    json header = good();
    header["b"].erase(key);
    expect_refused(header.dump(), 28, std::string("b.") + key, "", "");
  }
  expect_refused(R"({"b": 3})", 0, "b", "3", "an object with dtype, shape and data_offsets");
}

TEST(SafetensorsHeader, RefusesHolesOverlapsAndAnotherEnd) {
  json header = good();
  header["a"]["data_offsets"] = {25, 29};
  expect_refused(header.dump(), 29, "a.data_offsets", "[25, 29]", "from 24 on");
  header["a"]["data_offsets"] = {23, 27};
  expect_refused(header.dump(), 27, "a.data_offsets", "[23, 27]", "from 24 on");
  expect_refused(json{{"a", tensor("U8", {1}, 1, 2)}}.dump(), 2, "a.data_offsets", "[1, 2]",
                 "from 0 on");
  expect_refused(good().dump(), 29, "data", "29 bytes", "the 28 bytes");
  expect_refused(good().dump(), 27, "data", "27 bytes", "the 28 bytes");
}

TEST(SafetensorsHeader, RefusesDuplicatesAndMetadataThatIsNoText) {
  const std::string one = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_refused("{" + one + "," + one + "}", 1, "a", "a second one", "each key once");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                 "a.dtype", "a second one", "each key once");
  expect_refused(R"({"__metadata__":3})", 0, "__metadata__", "3", "an object of strings");
  expect_refused(R"({"__metadata__":{"k":3}})", 0, "__metadata__.k", "3", "a string");
}

TEST(SafetensorsHeader, RefusesTextThatIsNoHeader) {
  expect_refused("", 0, "header", "", "begins with '{'");
  expect_refused(" {}", 0, "header", "\" \"", "begins with '{'");
  expect_refused("[]", 0, "header", "\"[\"", "begins with '{'");
  expect_refused("{", 0, "header", "not JSON at byte 2", "a JSON object");
  expect_refused(std::string("{}\0", 3), 0, "header", "not JSON at byte 3", "a JSON object");
}

std::string prefix(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xFFU);
  return bytes;
}

TEST(SafetensorsHeader, ReadsItsLengthFromTheFirstEightBytes) {
  EXPECT_EQ(*safetensors_header_size(prefix(0x010203), Bytes(1 << 20)), Bytes(0x010203));
  EXPECT_EQ(*safetensors_header_size(prefix(2), Bytes(10)), Bytes(2));
  EXPECT_EQ(*safetensors_header_size(prefix(100'000'000), Bytes(1LL << 40)), Bytes(100'000'000));
}

TEST(SafetensorsHeader, RefusesALengthBeyondTheFileOrTheLimit) {
  const auto refused = [](const std::string& first, std::int64_t file, const std::string& value,
                          const std::string& allowed) {
    const auto size = safetensors_header_size(first, Bytes(file));
    ASSERT_FALSE(size);
    EXPECT_EQ(size.error().field(), "header length");
    EXPECT_EQ(size.error().value(), value);
    EXPECT_THAT(size.error().allowed(), HasSubstr(allowed));
  };
  refused(prefix(3), 10, "3", "at most 2 bytes (the rest of the file)");
  refused(prefix(100'000'001), 1LL << 40, "100000001", "at most 100000000 bytes (the limit");
  refused(prefix(~0ULL), 1LL << 40, "18446744073709551615", "at most 100000000 bytes");
  refused("abc", 3, "3 bytes", "8 bytes at the start");
  refused("", 0, "0 bytes", "8 bytes at the start");
}

// A file that any writer could have made is read back as what it was made of.
RC_GTEST_PROP(SafetensorsHeader, ReadsBackRandomTensors, ()) {
  const int count = *rc::gen::inRange(0, 8);
  json header = json::object();
  std::int64_t end = 0;
  std::int64_t elements = 0;
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    const auto dtype = static_cast<layout::DType>(
        *rc::gen::inRange(0, static_cast<int>(layout::DType::kBool) + 1));
    const auto shape = *rc::gen::container<std::vector<std::int64_t>>(
        *rc::gen::inRange<std::size_t>(0, 4), rc::gen::inRange<std::int64_t>(1, 6));
    std::int64_t product = 1;
    for (const std::int64_t dimension : shape) product *= dimension;
    const std::int64_t begin = end;
    end += product * layout::bytes_per_element(dtype).value();
    const bool floating = layout::is_floating(dtype);
    if (floating) elements += product;
    const std::string name = "t" + std::to_string(*rc::gen::inRange(0, 1000) * 10 + i);
    if (floating) names.push_back(name);
    header[name] = tensor(std::string(layout::safetensors_name(dtype)), shape, begin, end);
  }
  const auto model = read(header.dump(), end);
  RC_ASSERT(model.has_value());
  RC_ASSERT(model->parameters.value() == elements);
  RC_ASSERT(model->table->size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) RC_ASSERT((*model->table)[i].name() == names[i]);
}

RC_GTEST_PROP(SafetensorsHeader, NeverCrashesOnBytes,
              (const std::string& text, const std::string& first)) {
  RC_ASSERT(!read(text, 8) || text == "{}");
  RC_ASSERT(!read("{" + text, 8));
  const auto size = safetensors_header_size(first, Bytes(100));
  RC_ASSERT(!size || (*size >= Bytes(0) && *size <= Bytes(92)));
}

RC_GTEST_PROP(SafetensorsHeader, NeverCrashesOnMutatedText, ()) {
  std::string text = good().dump();
  const int changes = *rc::gen::inRange(0, 5);
  for (int i = 0; i < changes; ++i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] =
        *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::element('9', '-', '"', '{', '['));
  }
  text.resize(*rc::gen::inRange<std::size_t>(0, text.size() + 1));
  const auto model = read(text, 28);
  if (model) {
    std::int64_t bytes = 0;
    for (const auto& parameter : model->table->parameters()) bytes += parameter.bytes().value();
    RC_ASSERT(bytes == 28);
  } else {
    RC_ASSERT(!model.error().field().empty());
  }
}

}  // namespace
}  // namespace shardlight::plan
