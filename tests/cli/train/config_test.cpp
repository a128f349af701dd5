// Configs of `shardlight train`: what is taken, and how each mistake is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "shardlight/cli/train/launchers.h"
#include "shardlight/cli/train/preparation.h"
#include "shardlight/cli/train/setting_value.h"
#include "shardlight/cli/train/settings.h"
#include "shardlight/cli/train/start_report.h"
#include "tests/scratch.h"

namespace shardlight::cli {
namespace {

using testing::HasSubstr;

Result<TrainRequest> read(const std::string& text, const Given& flags = {}) {
  return read_train_request("c.json", text, flags);
}

std::string error_of(const std::string& text, const Given& flags = {}) {
  const auto request = read(text, flags);
  return request ? "" : request.error().message();
}

std::string prepare_error(const std::string& text, const comm::Place& place = {}) {
  const auto prepared = prepare(*read(text), place);
  return prepared ? "" : prepared.error().message();
}

TEST(TrainConfig, IsTheDefaultsWhereNothingIsSaid) {
  const auto request = read("{}");
  ASSERT_TRUE(request) << request.error().message();
  for (const Setting& setting : train_settings()) {
    EXPECT_EQ(shown_value(setting, request->config), shown_value(setting, TrainConfig()));
    EXPECT_EQ(request->origin(setting.path), SettingOrigin::kDefault);
  }
}

TEST(TrainConfig, TakesEveryKindOfValue) {
  const auto request = read(R"({
    "model": {"layers": 2, "tied": false, "dropout": 0.5},
    "data": {"files": ["a", "b"]},
    "optimizer": {"betas": [0.8, 0.9],
                  "groups": [{"parameters": ["*.bias"], "weight_decay": 0},
                             {"parameters": ["x"], "lr": 1}]},
    "zero": {"clip_norm": 2, "unit_bytes": "4 MiB", "bucket_bytes": 77, "gathered_bytes": "1 GB",
             "placements": {"optimizer": "sharded"}, "order": "grouped", "group": 3}})");
  ASSERT_TRUE(request) << request.error().message();
  const TrainConfig& config = request->config;
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_FALSE(config.model.tied);
  EXPECT_EQ(config.model.dropout, 0.5);
  EXPECT_THAT(config.data.files, testing::ElementsAre("a", "b"));
  EXPECT_THAT(config.optimizer.betas, testing::ElementsAre(0.8, 0.9));
  ASSERT_EQ(config.optimizer.groups.size(), 2U);
  EXPECT_EQ(config.optimizer.groups[0].weight_decay, 0.0);
  EXPECT_EQ(config.optimizer.groups[0].lr, std::nullopt);
  EXPECT_EQ(config.optimizer.groups[1].lr, 1.0);
  EXPECT_EQ(config.zero.clip_norm, 2.0);
  EXPECT_EQ(config.zero.unit_bytes, Bytes(4 << 20));
  EXPECT_EQ(config.zero.bucket_bytes, Bytes(77));
  EXPECT_EQ(config.zero.gathered_bytes, Bytes(1'000'000'000));
  EXPECT_EQ(config.zero.placements.optimizer, "sharded");
  EXPECT_EQ(config.zero.group, 3);
  EXPECT_EQ(request->origin("zero.unit_bytes"), SettingOrigin::kConfig);
  EXPECT_EQ(read(R"({"zero": {"clip_norm": null}})")->config.zero.clip_norm, std::nullopt);
}

struct Mistake {
  const char* text;
  const char* says;
};
class TrainConfigMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(TrainConfigMistakes, AreNamedByPathValueAndWhatIsAllowed) {
  EXPECT_THAT(error_of(GetParam().text), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainConfigMistakes,
    testing::Values(
        Mistake{"[]", "c.json: "}, Mistake{"{", "c.json: 'not JSON at byte"},
        Mistake{R"({"model": {"layers": 0}})",
                "c.json: model.layers: '0' is not allowed; allowed: a whole number from 1 to 1000"},
        Mistake{R"({"model": {"layers": 2.5}})", "model.layers: '2.5'"},
        Mistake{R"({"model": {"layers": "4"}})", "model.layers: '4'"},
        Mistake{R"({"model": {"layer": 4}})",
                "model.layer: 'unknown key' is not allowed; allowed: did you mean layers? one of: "
                "layers, heads"},
        Mistake{R"({"modle": {}})",
                "modle: 'unknown key' is not allowed; allowed: did you mean model?"},
        Mistake{R"({"model": 3})", "model: '3' is not allowed; allowed: an object with keys"},
        Mistake{R"({"model": {"layers": 2, "layers": 3}})", "model.layers: 'a second one'"},
        Mistake{R"({"model": {"hidden": 130}})",
                "model.hidden: '130' is not allowed; allowed: a multiple of model.heads, 4"},
        Mistake{R"({"model": {"positions": 64}})", "model.positions: '64'"},
        Mistake{R"({"model": {"tied": 1}})",
                "model.tied: '1' is not allowed; allowed: true or false"},
        Mistake{
            R"({"optimizer": {"name": "adamv"}})",
            "optimizer.name: 'adamv' is not allowed; allowed: did you mean adamw? one of: adamw"},
        Mistake{R"({"optimizer": {"betas": [0.9]}})", "optimizer.betas: 'a list'"},
        Mistake{R"({"optimizer": {"betas": [0.9, 1]}})", "optimizer.betas: '1'"},
        Mistake{
            R"({"optimizer": {"momentum": 0.9}})",
            "optimizer.momentum: '0.9' is not allowed; allowed: it only where optimizer.name is "
            "sgd, and it is adamw"},
        Mistake{R"({"optimizer": {"name": "sgd", "betas": [0.9, 0.9]}})", "optimizer.betas: "},
        Mistake{R"({"optimizer": {"groups": [{"lr": 1}]}})",
                "optimizer.groups[0].parameters: is missing"},
        Mistake{
            R"({"optimizer": {"groups": [{"parameters": ["x"], "decay": 1}]}})",
            "optimizer.groups[0].decay: 'unknown key' is not allowed; allowed: one of: parameters"},
        Mistake{R"({"schedule": {"name": "constant", "warmup": 3}})", "schedule.warmup: '3'"},
        Mistake{R"({"zero": {"stage": 4}})",
                "zero.stage: '4' is not allowed; allowed: a whole number "
                "from 0 to 3"},
        Mistake{R"({"zero": {"unit_bytes": "4 MB/s"}})", "zero.unit_bytes: '4 MB/s'"},
        Mistake{R"({"zero": {"unit_bytes": -1}})", "zero.unit_bytes: '-1'"},
        Mistake{R"({"zero": {"placements": {"parameters": "cut"}}})",
                "zero.placements.parameters: 'cut'"},
        Mistake{R"({"zero": {"group": 2}})",
                "zero.group: '2' is not allowed; allowed: it only where"},
        Mistake{R"({"zero": {"reproducible": true, "order": "tree"}})", "zero.order: 'tree'"},
        Mistake{R"({"zero": {"reproducible": true}, "batch": {"accumulation": 3}})",
                "batch.accumulation: '3'"},
        Mistake{R"({"zero": {"reproducible": true, "reduce": "every-micro-step"},
                    "batch": {"accumulation": 2}})",
                "zero.reduce: 'every-micro-step'"},
        Mistake{R"({"data": {"files": []}})", "data.files: 'a list'"},
        Mistake{R"({"data": {"files": [3]}})", "data.files: '3'"},
        Mistake{R"({"ranks": 0})", "ranks: '0'"}));

TEST(TrainFlags, OverrideTheConfig) {
  const auto request =
      read(R"({"steps": 5, "ranks": 2, "zero": {"placements": {"optimizer": "sharded"},
                               "order": "tree"}})",
           {{"--steps", "7"},
            {"--stage", "3"},
            {"--data", "x.txt,y.txt"},
            {"--reproducible", kGiven},
            {"--out", "there"}});
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_EQ(request->config.steps, 7);
  EXPECT_EQ(request->config.ranks, 2);
  EXPECT_EQ(request->config.zero.stage, 3);
  EXPECT_EQ(request->config.zero.placements.optimizer, "by stage");
  EXPECT_EQ(request->config.zero.order, "linear");
  EXPECT_TRUE(request->config.zero.reproducible);
  EXPECT_THAT(request->config.data.files, testing::ElementsAre("x.txt", "y.txt"));
  EXPECT_EQ(request->config.out, "there");
  EXPECT_EQ(request->origin("steps"), SettingOrigin::kFlag);
  EXPECT_EQ(request->origin("ranks"), SettingOrigin::kConfig);
}

TEST(TrainFlags, AreNamedByThemselves) {
  EXPECT_THAT(error_of("{}", {{"--stage", "4"}}), HasSubstr("--stage: '4' is not allowed"));
  EXPECT_THAT(error_of("{}", {{"--transport", "shn"}}),
              HasSubstr("--transport: 'shn' is not allowed; allowed: did you mean shm?"));
  EXPECT_THAT(error_of("{}", {{"--data", "a,"}}), HasSubstr("--data: "));
}

TEST(TrainSettings, HaveUniquePathsAndFlags) {
  std::set<std::string> seen;
  for (const Setting& setting : train_settings()) {
    EXPECT_TRUE(seen.insert(setting.path).second) << setting.path;
    EXPECT_TRUE(setting.flag.empty() || seen.insert(setting.flag).second) << setting.flag;
    const std::string& needs = setting.needs.path;
    EXPECT_TRUE(needs.empty() || find_setting(needs) != nullptr) << needs;
    EXPECT_THAT(settings_help(), HasSubstr(setting.path));
  }
}

TEST(Preparation, FillsInWhatTheDataSay) {
  const auto prepared = prepare(*read(R"({"ranks": 4, "zero": {"stage": 3}})"), {});
  ASSERT_TRUE(prepared) << prepared.error().message();
  EXPECT_EQ(prepared->config().model.vocabulary, 256);
  EXPECT_EQ(prepared->config().model.positions, 128);
  EXPECT_EQ(prepared->tokens_per_step(), 4 * 8 * 128);
  EXPECT_EQ(prepared->prompt, (std::vector<std::int64_t>{'\n'}));
  // 16 bytes a parameter over 4 ranks.
  const std::int64_t parameters = prepared->plan.request.model.parameters.value();
  EXPECT_EQ(prepared->plan.stages[3].states.total(), plan::Share(Bytes(4 * parameters)));
  const std::string text = as_text(start_report(*prepared), {});
  EXPECT_THAT(text, HasSubstr("model.layers                4"));
  EXPECT_THAT(text, HasSubstr("<- this run"));
  EXPECT_THAT(text, testing::Not(HasSubstr("optimizer.momentum")));
}

TEST(Preparation, SettlesWhenGradientsAreReduced) {
  const auto reduce = [](const std::string& zero, int accumulation) {
    const auto request =
        read(R"({"ranks": 2, "zero": )" + zero + R"(, "batch": {"accumulation": )" +
             std::to_string(accumulation) + "}}");
    const auto prepared = *prepare(*request, {});
    EXPECT_EQ(prepared.plan.request.reduce == plan::ReduceSetting::kDefault,
              request->config.zero.reduce == "default");
    return prepared.config().zero.reduce;
  };
  EXPECT_EQ(reduce(R"({"stage": 1})", 2), "once");
  EXPECT_EQ(reduce(R"({"stage": 2})", 2), "every-micro-step");
  EXPECT_EQ(reduce(R"({"stage": 2, "placements": {"gradients": "replicated"}})", 2), "once");
  EXPECT_EQ(reduce(R"({"stage": 3, "reproducible": true})", 2), "once");
  EXPECT_EQ(reduce(R"({"stage": 3, "reduce": "once"})", 2), "once");
  EXPECT_EQ(reduce(R"({"stage": 3})", 1), "default");
}

TEST(Preparation, RefusesMoreRanksThanShareMemory) {
  EXPECT_THAT(prepare_error(R"({"ranks": 200})"),
              HasSubstr("ranks: '200' is not allowed; allowed: 1 to 128 where transport is shm"));
  EXPECT_THAT(prepare_error(R"({"ranks": 129, "transport": "threads"})"),
              HasSubstr("1 to 128 where transport is threads"));
  EXPECT_EQ(prepare_error(R"({"ranks": 128})"), "");
}

// place_of() calls them by these names.
TEST(Launchers, AreKnownByTheirVariables) {
  const auto place = [](std::map<std::string, std::string> variables) {
    return *comm::place_of(Environment(std::move(variables)));
  };
  const auto own =
      place({{"SHARDLIGHT_RANK", "0"}, {"SHARDLIGHT_WORLD", "1"}, {"SHARDLIGHT_JOB", "j"}});
  const auto open_mpi = place({{"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                               {"PMIX_NAMESPACE", "j"}});
  const auto slurm = place({{"SLURM_PROCID", "0"},
                            {"SLURM_NTASKS", "1"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_JOB_ID", "1"},
                            {"SLURM_STEP_ID", "0"}});
  EXPECT_TRUE(pins_ranks(own) && !starts_mpi(own) && !feigns_terminals(own));
  EXPECT_TRUE(!pins_ranks(open_mpi) && starts_mpi(open_mpi) && feigns_terminals(open_mpi));
  EXPECT_TRUE(!pins_ranks(slurm) && starts_mpi(slurm) && !feigns_terminals(slurm));
  EXPECT_TRUE(pins_ranks({}) && !starts_mpi({}));
}

TEST(Preparation, TakesTheRanksOfALauncher) {
  const comm::Place place{.launcher = "torchrun", .job = "j", .rank = Rank(1), .world = 3};
  const auto prepared = prepare(*read(R"({"ranks": 2})"), place);
  ASSERT_TRUE(prepared) << prepared.error().message();
  EXPECT_EQ(prepared->config().ranks, 3);
  const auto refused = prepare(*read("{}", {{"--ranks", "2"}}), place);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("--ranks: '2' is not allowed; allowed: none, or 3"));
  EXPECT_THAT(prepare_error(R"({"transport": "threads"})", place),
              HasSubstr("transport: 'threads'"));
}

TEST(Preparation, SaysHowMuchDataItNeeds) {
  const std::string path = scratch_file("six.txt", "abcdef");
  EXPECT_THAT(
      prepare_error(R"({"data": {"files": [")" + path + R"("]}})"),
      HasSubstr("batch.sequence: '128' is not allowed; allowed: none with 6 tokens of data: "
                "128 needs 2580"));
}

TEST(Preparation, NamesWhatTheDataDoNotAllow) {
  EXPECT_THAT(prepare_error(R"({"data": {"files": ["/no/such"]}})"),
              HasSubstr("data.files: /no/such: 'no file'"));
  EXPECT_THAT(prepare_error(R"({"model": {"vocabulary": 200}})"),
              HasSubstr("model.vocabulary: '200' is not allowed; allowed: 0, or the data's 256"));
  const std::string path = scratch_file("short.txt", std::string(2000, 'x'));
  EXPECT_THAT(prepare_error(R"({"data": {"files": [")" + path + R"("]}})"),
              HasSubstr("batch.sequence: '128' is not allowed; allowed: 1 to 99"));
  EXPECT_THAT(prepare_error(R"({"transport": "mpi"})"), HasSubstr("mpi under mpirun"));
}

}  // namespace
}  // namespace shardlight::cli
