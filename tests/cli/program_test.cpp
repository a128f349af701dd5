#include "shardlight/cli/program.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace shardlight::cli {
namespace {

struct Ran {
  int code;
  std::string out, err;
};

Ran run(const std::vector<std::string>& arguments, const Environment& environment = {},
        bool terminal = false) {
  std::ostringstream out, err;
  const int code = run_program(arguments, environment, {out, err, terminal});
  return {code, out.str(), err.str()};
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

Ran plan(const std::string& line) {
  std::vector<std::string> arguments = words(line);
  arguments.insert(arguments.begin(), "plan");
  return run(arguments);
}

nlohmann::json plan_json(const std::string& line) {
  const Ran ran = plan(line + " --json");
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  return nlohmann::json::parse(ran.out);
}

std::string written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Plan, OfACountShowsTheFourStages) {
  const auto json = plan_json("--params 7.5e9 --ranks 64");
  ASSERT_EQ(json["states"].size(), 4U);
  EXPECT_EQ(json["states"][0]["total_bytes"], 120'000'000'000);
  EXPECT_EQ(json["states"][3]["total_bytes"], 1'875'000'000);
  EXPECT_EQ(json["states"][3]["compression_ratio"], 64.0);
  EXPECT_EQ(json["traffic"][3]["traffic_bytes"], 45'000'000'000);
  EXPECT_EQ(json["stage_1_sources"].size(), 3U);
  EXPECT_TRUE(json["beside"][3]["activations_bytes"].is_null());
}

TEST(Plan, EveryOptionReachesThePlan) {
  const auto differs = [](const std::string& options, const std::string& changed) {
    return plan_json(options) != plan_json(options + " " + changed);
  };
  const std::string model = "--model gpt2 --ranks 4";
  const std::string batch = model + " --micro-batch 4 --sequence 256";
  const std::string machine = batch + " --interconnect ib-edr --peak-flops 1e14";
  EXPECT_TRUE(differs(model, "--precision fp32"));
  EXPECT_TRUE(differs(model, "--grad-dtype fp32"));
  EXPECT_TRUE(differs(model, "--optimizer sgd"));
  EXPECT_TRUE(differs(model, "--optimizer sgd-momentum"));
  EXPECT_TRUE(differs(model, "--accumulation-steps 4"));
  EXPECT_TRUE(differs(model + " --accumulation-steps 4", "--reduce once"));
  EXPECT_TRUE(differs(model, "--unit-bytes 100MB"));
  EXPECT_TRUE(differs(model, "--device-memory 1GB"));
  EXPECT_TRUE(differs(model, "--device a100-80gb"));
  EXPECT_TRUE(differs(model + " --device a100-80gb", "--device-memory 1GB"));
  EXPECT_TRUE(differs(model, "--bandwidth 1GB/s"));
  EXPECT_TRUE(differs(model + " --bandwidth 1GB/s", "--latency 1ms"));
  EXPECT_TRUE(differs(model, "--wants-replicas"));
  EXPECT_TRUE(differs(model + " --exchange collective", "--dynamic-control-flow"));
  EXPECT_TRUE(differs(batch, "--checkpointing full"));
  EXPECT_TRUE(differs(batch, "--activation-rule zero"));
  EXPECT_TRUE(differs(machine, "--efficiency 0.1"));
}

TEST(Plan, BadInputNamesOptionValueAndWhatIsAllowed) {
  struct Case {
    const char* line;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"--params 7.5e9 --ranks 0",
       "--ranks: '0' is not allowed; allowed: a whole number from 1 to"},
      {"--params 7.5e9 --ranks -1", "--ranks: '-1' is not allowed"},
      {"--params 7.5G5 --ranks 4", "--params: '7.5G5' is not allowed; allowed: a whole number"},
      {"--params 0 --ranks 4", "--params: '0' is not allowed"},
      {"--params 1.5 --ranks 4", "--params: '1.5' is not allowed"},
      {"--params 1e18 --ranks 4", "--params: '1e18' is not allowed"},
      {"--ranks 4", "--params or --model: is missing"},
      {"--params 7.5e9", "--ranks: is missing; allowed: a whole number from 1"},
      {"--params 7e9 --model gpt2 --ranks 4",
       "--params: '7e9' is not allowed; allowed: only without"},
      {"--model gpt3 --ranks 4", "--model: 'gpt3' is not allowed; allowed: did you mean gpt2?"},
      {"--model /nowhere/config.json --ranks 4", "--model: '/nowhere/config.json' is not allowed"},
      {"--params 7e9 --ranks 4 --device-memory -32GB", "--device-memory: '-32GB' is not allowed"},
      {"--params 7e9 --ranks 4 --device-memory 0", "--device-memory: '0' is not allowed"},
      {"--params 7e9 --ranks 4 --precision fp8", "--precision: 'fp8' is not allowed; allowed: "},
      {"--params 7e9 --ranks 4 --device h100", "--device: 'h100' is not allowed; allowed: "},
      {"--params 7e9 --ranks 4 --interconnect ib", "one of: nvswitch, ib-edr"},
      {"--params 7e9 --rank 4", "option: '--rank' is not allowed; allowed: did you mean --ranks?"},
      {"--params 7e9 --ranks 4 --ranks 8", "--ranks: '8' is not allowed; allowed: once"},
      {"--params 7e9 --ranks", "--ranks: is missing; allowed: a value, N"},
      {"--params --ranks 4", "--params: is missing; allowed: a value, N"},
      {"--params 7e9 --ranks 4 --json=yes", "--json: 'yes' is not allowed; allowed: no value"},
      {"--params 7e9 --ranks 4 --json --csv",
       "--csv: 'true' is not allowed; allowed: only without"},
      {"--params 7e9 --ranks 4 --micro-batch 1",
       "--micro-batch: '1' is not allowed; allowed: only "
       "together with --sequence"},
      {"--params 7e9 --ranks 4 --efficiency 0.5", "only together with --peak-flops|--device"},
      {"--params 7e9 --ranks 4 --micro-batch 1 --sequence 8", "--micro-batch: '1' is not allowed"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 1025",
       "--sequence: '1025' is not allowed; "
       "allowed: 1 to 1024"},
      {"--params 7e9 --ranks 4 extra", "argument: 'extra' is not allowed"},
      {"tabel1", "shardlight plan: 'tabel1' is not allowed"},
      {"example D", "example: 'D' is not allowed; allowed: one of: A, B, C1, C2"},
      {"example", "example: is missing; allowed: one of: A, B, C1, C2"},
      {"table2 --rounding up", "--rounding: 'up' is not allowed; allowed: one of: exact, paper"}};
  for (const Case& wrong : cases) {
    const Ran ran = plan(wrong.line);
    EXPECT_EQ(ran.code, kExitUsage) << wrong.line;
    EXPECT_EQ(ran.out, "") << wrong.line;
    EXPECT_NE(ran.err.find(wrong.message), std::string::npos) << wrong.line << "\n" << ran.err;
  }
}

TEST(Plan, FilesAreNamedInFrontOfWhatIsWrongInThem) {
  const std::string config = written("config.json", R"({"model_type": "gpt2", "n_layer": 2})");
  const Ran missing = plan("--model " + config + " --ranks 2");
  EXPECT_EQ(missing.code, kExitUsage);
  EXPECT_NE(missing.err.find(config + ": "), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find("is missing"), std::string::npos) << missing.err;
  const Ran tensors = plan("--model " + written("x.safetensors", "12") + " --ranks 2");
  EXPECT_EQ(tensors.code, kExitUsage);
  EXPECT_NE(tensors.err.find("x.safetensors: header length"), std::string::npos) << tensors.err;
  const Ran folder = plan("--model " + testing::TempDir() + " --ranks 2");
  EXPECT_NE(folder.err.find("config.json"), std::string::npos) << folder.err;
}

TEST(Plan, TheThreeFormsHoldTheSameNumbers) {
  const std::string line = "--model gpt2 --ranks 3 --device-memory 2GB --interconnect ib-edr";
  const auto json = plan_json(line);
  std::istringstream csv(plan(line + " --csv").out);
  std::string header, row;
  std::getline(csv, header);
  std::replace(header.begin(), header.end(), ',', ' ');
  const std::vector<std::string> keys = words(header);
  for (int stage = 0; stage < 4; ++stage) {
    ASSERT_TRUE(std::getline(csv, row));
    std::istringstream fields(row);
    for (const std::string& key : keys) {
      std::string field;
      std::getline(fields, field, ',');
      bool found = false;
      for (const char* table : {"states", "beside", "traffic"}) {
        const auto& object = json[table][stage];
        if (!object.contains(key)) continue;
        found = true;
        EXPECT_EQ(object[key].is_null() ? "" : object[key].dump(), field) << key;
      }
      EXPECT_TRUE(found) << key;
    }
  }
}

TEST(Plan, ColourOnlyOnATerminalAndNotAgainstNoColor) {
  const std::vector<std::string> line = {"plan", "example", "A"};
  EXPECT_EQ(run(line).out.find('\x1b'), std::string::npos);
  EXPECT_NE(run(line, {}, true).out.find('\x1b'), std::string::npos);
  EXPECT_EQ(
      run(line, Environment(Environment::Variables{{"NO_COLOR", "1"}}), true).out.find('\x1b'),
      std::string::npos);
}

TEST(Plan, PaperTablesMarkAnalyticColumnsAndMeasuredOnes) {
  const Ran table1 = plan("table1");
  EXPECT_NE(table1.out.find("1T* os+g+p"), std::string::npos);
  EXPECT_NE(table1.out.find("* analytic"), std::string::npos);
  EXPECT_NE(plan("table1 --csv").out.find("1T_analytic_stage3_bytes"), std::string::npos);
  const auto json = nlohmann::json::parse(plan("table2 --json").out);
  EXPECT_EQ(json["table2"][4]["stage1_measured_parameters"], 100'000'000'000);
  EXPECT_EQ(json["table2"][4]["stage3_parameters"], 2'048'000'000'000);
  EXPECT_NE(plan("table2 --rounding paper").out.find("0.5T"), std::string::npos);
}

TEST(Plan, EveryBuiltinModelPlans) {
  const auto json = nlohmann::json::parse(plan("models --json").out);
  ASSERT_GT(json["models"].size(), 15U);
  for (const auto& model : json["models"]) {
    const std::string name = model["name"];
    EXPECT_EQ(plan_json("--model " + name + " --ranks 8")["settings"]["parameters"],
              model["parameters"]);
  }
}

TEST(Program, HelpVersionAndNonsense) {
  EXPECT_EQ(run({"--help"}).code, kExitOk);
  EXPECT_NE(run({"plan", "--help"}).out.find("--device-memory"), std::string::npos);
  EXPECT_NE(run({"plan", "table2", "--help"}).out.find("--rounding"), std::string::npos);
  EXPECT_EQ(run({"--version"}).out.find("shardlight "), 0U);
  EXPECT_EQ(run({}).code, kExitUsage);
  const Ran wrong = run({"plam"});
  EXPECT_EQ(wrong.code, kExitUsage);
  EXPECT_NE(wrong.err.find("did you mean plan?"), std::string::npos);
  EXPECT_EQ(run({"--version"}, Environment(Environment::Variables{{"SHARDLIGHT_LOG", "x"}})).code,
            kExitUsage);
}

TEST(Program, OutputThatCannotBeWrittenIsAFailure) {
  std::ofstream full("/dev/full");
  std::ostringstream err;
  EXPECT_EQ(run_program({"plan", "example", "A"}, {}, {full, err}), kExitFailure);
  EXPECT_NE(err.str().find("could not be written"), std::string::npos);
}

}  // namespace
}  // namespace shardlight::cli
