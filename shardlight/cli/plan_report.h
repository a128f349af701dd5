// What `shardlight plan` answers, as reports: which numbers stand in which table, and in what
// words. Computes nothing; the plan library did. Pure; any thread.
#pragma once

#include "shardlight/cli/report.h"
#include "shardlight/plan/planner.h"
#include "shardlight/plan/zero_paper.h"

namespace shardlight::cli {

// States, what comes beside them, traffic, stage 1's sources, advice.
Report plan_report(const plan::Plan& plan, const plan::Capabilities& build);

// The ZeRO paper's Table 1.
Report table1_report(const plan::Table1& table);

enum class Rounding { kExact, kPaper };
// The ZeRO paper's Table 2, its sizes exact or as the paper rounds them.
Report table2_report(const std::vector<plan::Table2Row>& rows, Rounding rounding);

// The built-in models and their sizes.
Result<Report> models_report();

}  // namespace shardlight::cli
