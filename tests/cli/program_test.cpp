#include "shardlight/cli/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardlight/cli/plan_options.h"
#include "shardlight/plan/display.h"
#include "tests/scratch.h"

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

// For every row of plan_options(): a command line, and what is added to it.
struct OptionCase {
  const char* line;
  const char* added;
};

const std::vector<OptionCase>& option_cases() {
  static const std::vector<OptionCase> kCases = {
      {"--params 7e9 --ranks 4", "--ranks=8"},  // replaces: see the test
      {"--params 7e9 --ranks 4", "--params=8e9"},
      {"--model gpt2 --ranks 4", "--model=gpt2-xl"},
      {"--model gpt2 --ranks 4", "--unit-bytes 100MB"},
      {"--model gpt2 --ranks 4", "--precision fp32"},
      {"--model gpt2 --ranks 4", "--grad-dtype fp32"},
      {"--model gpt2 --ranks 4", "--optimizer sgd"},
      {"--model gpt2 --ranks 4", "--accumulation-steps 4"},
      {"--model gpt2 --ranks 4 --accumulation-steps 4", "--reduce once"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 64", "--micro-batch=2"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 64", "--sequence=128"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 64", "--checkpointing full"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 64", "--activation-rule zero"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 64", "--peak-flops 312T"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 64 --device a100-80gb",
       "--efficiency 0.1"},
      {"--model gpt2 --ranks 4", "--device a100-80gb"},
      {"--model gpt2 --ranks 4", "--device-memory 1GB"},
      {"--model gpt2 --ranks 4", "--interconnect ib-edr"},
      {"--model gpt2 --ranks 4", "--bandwidth 1GB/s"},
      {"--model gpt2 --ranks 4 --bandwidth 1GB/s", "--latency 1ms"},
      {"--model gpt2 --ranks 4 --exchange one-sided --dynamic-control-flow",
       "--exchange=collective"},
      {"--model gpt2 --ranks 4", "--exchange collective --dynamic-control-flow"},
      {"--model gpt2 --ranks 4", "--wants-replicas"}};
  return kCases;
}

// "--name=value" takes the place of what the line has for the name; anything else is added.
std::string changed(const OptionCase& option) {
  const std::string added = option.added;
  const std::size_t equals = added.find('=');
  if (equals == std::string::npos) return std::string(option.line) + " " + added;
  std::vector<std::string> all = words(option.line);
  const auto found = std::find(all.begin(), all.end(), added.substr(0, equals));
  *(found + 1) = added.substr(equals + 1);
  std::string line;
  for (const std::string& word : all) line += word + " ";
  return line;
}

TEST(Plan, EveryOptionChangesWhatIsComputed) {
  const auto computed = [](const std::string& line) {
    auto json = plan_json(line);
    json.erase("settings");  // what was typed, told back
    return json;
  };
  for (const OptionCase& option : option_cases()) {
    EXPECT_NE(computed(option.line), computed(changed(option))) << changed(option);
  }
  for (const OptionRow& row : plan_options()) {
    const auto names = [&](const OptionCase& option) {
      return std::string(option.added).find(row.name) != std::string::npos;
    };
    EXPECT_TRUE(std::any_of(option_cases().begin(), option_cases().end(), names)) << row.name;
  }
}

TEST(Plan, AdamWKeepsWhatAdamKeeps) {
  const std::string line = "--params 7e9 --ranks 4";
  EXPECT_EQ(plan_json(line + " --optimizer adamw"), plan_json(line));
}

TEST(Plan, ADevicesPeakIsThatOfThePrecision) {
  const std::string line =
      "--model gpt2 --ranks 4 --device a100-80gb --micro-batch 1 --sequence 64";
  EXPECT_EQ(plan_json(line)["settings"]["peak_flops"], 312e12);
  EXPECT_EQ(plan_json(line + " --precision fp32")["settings"]["peak_flops"], 19.5e12);
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
       "--params: '7e9' is not allowed; allowed: only without --model"},
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
       "--csv: 'given' is not allowed; allowed: only without"},
      {"--params 7e9 --ranks 4 --micro-batch 1",
       "--micro-batch: '1' is not allowed; allowed: only "
       "together with --sequence"},
      {"--params 7e9 --ranks 4 --efficiency 0.5", "only together with --micro-batch"},
      {"--params 7e9 --ranks 4 --micro-batch 1 --sequence 8", "--micro-batch: '1' is not allowed"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 1025",
       "--sequence: '1025' is not allowed; "
       "allowed: 1 to 1024"},
      {"--model gpt2 --ranks 4 --micro-batch 1 --sequence 8 --efficiency 0.5",
       "only together with --peak-flops or --device"},
      {"--params 7e9 --ranks 4 --device-memory 80", "--device-memory: '80' is not allowed"},
      {"--params 7e9 --ranks 4 --exchange collective", "only together with --dynamic-control-flow"},
      {"--params 7e9 --ranks 4 --interconnect ib-edr --bandwidth 1GB/s",
       "--interconnect: 'ib-edr' is not allowed; allowed: only without --bandwidth"},
      {"--params 7e9 --ranks 4 --device a100-80gb --device-memory 1GB", "only without"},
      {"--params= --ranks 4", "--params: is missing; allowed: a value, N"},
      {"--params 1e17 --ranks 4 --accumulation-steps 1000000",
       "--accumulation-steps: '1000000' is not allowed"},
      {"--model zero-7.5b --ranks 4 --unit-bytes 1MB", "--unit-bytes: '1MB' is not allowed"},
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
  const std::string config = scratch_file("config.json", R"({"model_type": "gpt2", "n_layer": 2})");
  const Ran missing = plan("--model " + config + " --ranks 2");
  EXPECT_EQ(missing.code, kExitUsage);
  EXPECT_NE(missing.err.find(config + ": "), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find("is missing"), std::string::npos) << missing.err;
  EXPECT_EQ(missing.err.find("shardlight: --model: "), 0U) << missing.err;
  const Ran part =
      plan("--model " + scratch_file("m-00001-of-00002.safetensors", "") + " --ranks 2");
  EXPECT_NE(part.err.find("a whole model"), std::string::npos) << part.err;
  const Ran tensors = plan("--model " + scratch_file("x.safetensors", "12") + " --ranks 2");
  EXPECT_EQ(tensors.code, kExitUsage);
  EXPECT_NE(tensors.err.find("x.safetensors: header length"), std::string::npos) << tensors.err;
  const Ran folder = plan("--model " + testing::TempDir() + " --ranks 2");
  EXPECT_NE(folder.err.find("config.json"), std::string::npos) << folder.err;
}

std::vector<std::string> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::vector<std::string> fields(std::string line) {
  std::replace(line.begin(), line.end(), ',', ' ');
  return words(line);
}

TEST(Plan, CsvHasEveryNumberOfTheStagesInJson) {
  const std::string line =
      "--model gpt2 --ranks 3 --device-memory 2GB --interconnect ib-edr --micro-batch 1 --sequence "
      "8";
  const auto json = plan_json(line);
  const std::vector<std::string> csv = lines(plan(line + " --csv").out);
  ASSERT_EQ(csv.size(), 5U);
  const std::vector<std::string> keys = fields(csv[0]);
  for (int stage = 0; stage < 4; ++stage) {
    std::map<std::string, std::string> row;
    const std::vector<std::string> values = fields(csv[stage + 1]);
    ASSERT_EQ(values.size(), keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) row[keys[i]] = values[i];
    for (const char* table : {"states", "beside", "traffic"}) {
      for (const auto& [key, value] : json[table][stage].items()) {
        EXPECT_EQ(row[key], value.dump()) << key;
      }
    }
  }
}

TEST(Plan, TheTableShowsTheNumbersOfJsonByTheDisplayRule) {
  const std::string line = "--model gpt2-xl --ranks 3 --device-memory 20GB";
  const auto json = plan_json(line);
  const std::vector<std::string> text = lines(plan(line).out);
  const auto title = std::find_if(text.begin(), text.end(), [](const std::string& candidate) {
    return candidate.starts_with("Model states per rank, GB");
  });
  ASSERT_NE(title, text.end());
  for (int stage = 0; stage < 4; ++stage) {
    const std::vector<std::string> row = words(*(title + 2 + stage));
    const auto shown = [&](const char* key) {
      const double bytes = json["states"][stage][key];
      return plan::show_gb(plan::Share(Bytes(static_cast<std::int64_t>(bytes))));
    };
    EXPECT_EQ(row, (std::vector<std::string>{
                       std::to_string(stage), shown("parameters_bytes"), shown("gradients_bytes"),
                       shown("optimizer_bytes"), shown("total_bytes"),
                       plan::show_ratio(json["states"][stage]["compression_ratio"]) + "x"}));
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
