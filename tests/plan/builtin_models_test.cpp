#include "shardlight/plan/builtin_models.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "shardlight/plan/hf_config.h"

namespace shardlight::plan {
namespace {

using testing::HasSubstr;

// Totals as model cards, papers' repositories and transformers' users publish them.
const std::map<std::string, std::int64_t> kPublished = {
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"llama-7b", 6'738'415'616},
    {"llama-13b", 13'015'864'320},
    {"llama-65b", 65'285'660'672},
    {"llama-2-7b", 6'738'415'616},
    {"llama-2-70b", 68'976'648'192},
    {"llama-3-8b", 8'030'261'248},
    {"llama-3-70b", 70'553'706'496},
    {"mistral-7b", 7'241'732'096},
    {"mixtral-8x7b", 46'702'792'704},
    {"qwen2-7b", 7'615'616'512},
    {"qwen3-8b", 8'190'735'360},
    {"bert-base", 109'514'298},
    {"bert-large", 335'174'458},
    {"gpt2-1.5b-zero", 1'500'000'000},
    {"zero-7.5b", 7'500'000'000},
    {"zero-128b", 128'000'000'000},
    {"zero-1t", 1'000'000'000'000},
};

TEST(BuiltinModels, HaveThePublishedNumberOfParameters) {
  ASSERT_EQ(builtin_models().size(), kPublished.size());
  for (const auto& [name, parameters] : kPublished) {
    const auto model = builtin_model(name);
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ(model->name, name);
    EXPECT_EQ(model->parameters.value(), parameters) << name;
  }
}

TEST(BuiltinModels, AreEitherAConfigOrACount) {
  std::set<std::string_view> names;
  for (const BuiltinModel& builtin : builtin_models()) {
    EXPECT_TRUE(names.insert(builtin.name).second) << builtin.name;
    EXPECT_FALSE(builtin.description.empty()) << builtin.name;
    EXPECT_FALSE(builtin.source.empty()) << builtin.name;
    EXPECT_NE(builtin.hf_config.empty(), builtin.parameters == 0) << builtin.name;
    const auto model = builtin_model(std::string(builtin.name));
    ASSERT_TRUE(model);
    EXPECT_EQ(model->table.has_value(), !builtin.hf_config.empty());
    if (model->table) {
      EXPECT_EQ(model->table->elements(), model->parameters);
      EXPECT_TRUE(model->shape);
    }
  }
}

TEST(BuiltinModels, TheZeroPapersGpt2HasItsShape) {
  const auto model = builtin_model("gpt2-1.5b-zero");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->shape->hidden, 1600);
  EXPECT_EQ(model->shape->layers, 48);
  EXPECT_FALSE(builtin_model("zero-7.5b")->shape);
}

// 109,482,240: the count that bert-base-uncased is known for, with the pooler and without a head.
TEST(BuiltinModels, BertBaseWithoutAHeadHasItsPooler) {
  for (const BuiltinModel& builtin : builtin_models()) {
    if (builtin.name != "bert-base") continue;
    std::string config(builtin.hf_config);
    config.insert(1, R"("architectures": ["BertModel"],)");
    const auto model = model_from_hf_config(config, "bert");
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ(model->parameters.value(), 109'482'240);
  }
}

TEST(BuiltinModels, SuggestTheNearestName) {
  const auto model = builtin_model("gtp2-xl");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().field(), "model");
  EXPECT_EQ(model.error().value(), "gtp2-xl");
  EXPECT_THAT(model.error().allowed(), HasSubstr("did you mean gpt2-xl?"));
  EXPECT_THAT(model.error().allowed(), HasSubstr("llama-7b"));
  EXPECT_FALSE(builtin_model(""));
}

}  // namespace
}  // namespace shardlight::plan
