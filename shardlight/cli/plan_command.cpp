#include "shardlight/cli/plan_command.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shardlight/base/nearest.h"
#include "shardlight/cli/arguments.h"
#include "shardlight/cli/plan_options.h"
#include "shardlight/cli/plan_report.h"
#include "shardlight/cli/version.h"

namespace shardlight::cli {
namespace {

constexpr plan::Capabilities kThisBuild{.trains = kHasEngine, .one_sided_exchange = true};

constexpr const char* kFooter =
    "Instead of a run: shardlight plan table1 | table2 [--rounding exact|paper] | example "
    "A|B|C1|C2 "
    "| models\n"
    "\n"
    "Examples:\n"
    "  shardlight plan --params 7.5e9 --ranks 64\n"
    "  shardlight plan --model llama-7b --ranks 8 --device a100-80gb --micro-batch 1 \\\n"
    "      --sequence 2048 --checkpointing full --interconnect ib-edr\n"
    "\n"
    "GB are 10^9 bytes. --csv has one row a stage. docs/memory.md has the formulas.";

const std::vector<OptionHelp>& form_options() {
  static const std::vector<OptionHelp> kOptions = {
      {"--json", "", "Output", "For programs: exact values, everything"},
      {"--csv", "", "Output", "For spreadsheets: exact values, the rows alone"}};
  return kOptions;
}

Result<std::string> in_form(const Report& report, const Given& given, Style style) {
  if (given.contains("--json") && given.contains("--csv")) {
    return user_error("--csv", kGiven, "only without --json");
  }
  if (given.contains("--json")) return as_json(report);
  if (given.contains("--csv")) return as_csv(report);
  return as_text(report, style);
}

using Words = std::vector<std::string>;
struct Context {
  Style style;
  const telemetry::Logger& log;
};

// Parses what follows a subcommand, with the form options and `extra` ones.
Result<Parsed> parse_for(const std::string& usage, const std::string& summary,
                         std::vector<OptionHelp> extra, const Words& words,
                         const std::string& footer = {}) {
  extra.insert(extra.end(), form_options().begin(), form_options().end());
  return parse_arguments(
      {.usage = usage, .summary = summary, .footer = footer, .options = std::move(extra)}, words);
}

Result<std::string> run_table1(const Words& words, const Context& context) {
  SHARDLIGHT_TRY(
      const Parsed parsed,
      parse_for("shardlight plan table1", "Table 1 of the ZeRO paper: memory per rank", {}, words));
  if (parsed.help) return *parsed.help;
  return in_form(table1_report(plan::zero_table1()), parsed.given, context.style);
}

Result<std::string> run_table2(const Words& words, const Context& context) {
  SHARDLIGHT_TRY(
      const Parsed parsed,
      parse_for("shardlight plan table2",
                "Table 2 of the ZeRO paper: the largest model, and what was measured",
                {{"--rounding", "R", "Output", "exact, or paper's own [exact]"}}, words));
  if (parsed.help) return *parsed.help;
  const auto found = parsed.given.find("--rounding");
  const std::string rounding = found == parsed.given.end() ? "exact" : found->second;
  const std::vector<std::string> names = {"exact", "paper"};
  if (rounding != names[0] && rounding != names[1]) {
    return user_error("--rounding", rounding, one_of(names, rounding));
  }
  return in_form(
      table2_report(plan::zero_table2(), rounding == "exact" ? Rounding::kExact : Rounding::kPaper),
      parsed.given, context.style);
}

Result<std::string> run_example(const Words& words, const Context& context) {
  Words options = words;
  std::string name;
  const auto named = std::find_if(options.begin(), options.end(),
                                  [](const std::string& word) { return !word.starts_with('-'); });
  if (named != options.end()) {
    name = *named;
    options.erase(named);
  }
  SHARDLIGHT_TRY(const Parsed parsed,
                 parse_for("shardlight plan example NAME",
                           "A worked example of docs/memory.md: A, B, C1 or C2", {}, options));
  if (parsed.help) return *parsed.help;
  SHARDLIGHT_TRY(const plan::Plan plan, plan::example_plan(name));
  return in_form(plan_report(plan, kThisBuild), parsed.given, context.style);
}

Result<std::string> run_models(const Words& words, const Context& context) {
  SHARDLIGHT_TRY(const Parsed parsed, parse_for("shardlight plan models",
                                                "The built-in models, for --model", {}, words));
  if (parsed.help) return *parsed.help;
  SHARDLIGHT_TRY(const Report report, models_report());
  return in_form(report, parsed.given, context.style);
}

Result<std::string> run_request(const Words& words, const Context& context) {
  std::vector<OptionHelp> options;
  for (const OptionRow& row : plan_options()) {
    options.push_back({row.name, row.argument, row.group, row.help});
  }
  SHARDLIGHT_TRY(const Parsed parsed,
                 parse_for("shardlight plan",
                           "What a training run costs per rank at ZeRO stages 0 to 3: memory, "
                           "traffic, what fits",
                           std::move(options), words, kFooter));
  if (parsed.help) return *parsed.help;
  SHARDLIGHT_TRY(plan::PlanRequest request, plan_request(parsed.given));
  context.log.debug("planning " + std::to_string(request.model.parameters.value()) +
                    " parameters, table " + (request.model.table ? "known" : "not known"));
  auto plan = plan::make_plan(std::move(request));
  if (!plan) return Failure(option_error(plan.error(), parsed.given));
  return in_form(plan_report(*plan, kThisBuild), parsed.given, context.style);
}

struct Subcommand {
  const char* name;
  Result<std::string> (*run)(const Words&, const Context&);
};

constexpr std::array<Subcommand, 4> kSubcommands = {{{"table1", run_table1},
                                                     {"table2", run_table2},
                                                     {"example", run_example},
                                                     {"models", run_models}}};

}  // namespace

Result<std::string> run_plan(const std::vector<std::string>& arguments, Style style,
                             const telemetry::Logger& log) {
  const Context context{style, log};
  if (arguments.empty() || arguments.front().starts_with('-')) {
    return run_request(arguments, context);
  }
  const Words rest(arguments.begin() + 1, arguments.end());
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) {
    if (arguments.front() == subcommand.name) return subcommand.run(rest, context);
    names.emplace_back(subcommand.name);
  }
  return user_error("shardlight plan", arguments.front(),
                    "options (see --help), or " + one_of(names, arguments.front()));
}

}  // namespace shardlight::cli
