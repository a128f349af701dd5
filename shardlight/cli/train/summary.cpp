#include "shardlight/cli/train/summary.h"

#include <fmt/format.h>

#include "shardlight/base/check.h"
#include "shardlight/cli/cells.h"
#include "shardlight/cli/train/predicted_peak.h"
#include "shardlight/cli/train/progress.h"
#include "shardlight/cli/train/start_report.h"

namespace shardlight::cli {
namespace {

using plan::ByteUnit;

Cell difference_cell(const TagEnd& tag) {
  if (!tag.ledger) return {"", {}};
  const std::int64_t more = tag.bytes.now.value() - tag.ledger->value();
  return {more == 0 ? "equal" : fmt::format("{:+} B", more), more};
}

Table memory_table(const RunEnd& end) {
  Bytes largest(1);
  for (const RankEnd& rank : end.ranks) largest = std::max(largest, rank.total.peak);
  const ByteUnit unit = plan::unit_for(plan::Share(largest));
  Table table{.key = "memory",
              .title = fmt::format("Memory by tag, {}", unit.name),
              .columns = {{"rank", "rank"},
                          {"tag", "tag", true},
                          {"now_bytes", "now"},
                          {"ledger_bytes", "ledger"},
                          {"over_ledger_bytes", "against it", true},
                          {"peak_bytes", "peak"}}};
  for (std::size_t rank = 0; rank < end.ranks.size(); ++rank) {
    const RankEnd& of_rank = end.ranks[rank];
    const Cell number = number_cell(static_cast<std::int64_t>(rank));
    for (std::size_t i = 0; i < memory::kTags; ++i) {
      const TagEnd& tag = of_rank.tags[i];
      if (tag.bytes.peak == Bytes(0) && tag.ledger.value_or(Bytes(0)) == Bytes(0)) continue;
      table.rows.push_back({number, text_cell(std::string(name_of(static_cast<memory::Tag>(i)))),
                            bytes_cell(plan::Share(tag.bytes.now), unit),
                            tag.ledger ? bytes_cell(tag.ledger, unit) : Cell{"", {}},
                            difference_cell(tag), bytes_cell(plan::Share(tag.bytes.peak), unit)});
    }
    table.rows.push_back({number,
                          text_cell("total"),
                          bytes_cell(plan::Share(of_rank.total.now), unit),
                          {"", {}},
                          {"", {}},
                          bytes_cell(plan::Share(of_rank.total.peak), unit)});
  }
  table.notes.emplace_back("Now: after the last step, what stays between steps.");
  return table;
}

Cell equal_cell(Bytes moved, Bytes planned) {
  const std::int64_t more = moved.value() - planned.value();
  return {more == 0 ? "equal" : fmt::format("{:+} B", more), more};
}

Table traffic_table(const RunEnd& end) {
  Bytes largest(1);
  for (const RankEnd& rank : end.ranks) {
    largest = std::max({largest, rank.planned_gathered, rank.planned_reduced});
  }
  const ByteUnit unit = plan::unit_for(plan::Share(largest));
  Table table{.key = "traffic",
              .title = fmt::format("Traffic of the run, {}", unit.name),
              .columns = {{"rank", "rank"},
                          {"gathered_bytes", "gathered"},
                          {"planned_gathered_bytes", "planned"},
                          {"gathered_over_plan_bytes", "", true},
                          {"reduced_bytes", "reduced"},
                          {"planned_reduced_bytes", "planned"},
                          {"reduced_over_plan_bytes", "", true},
                          {"gathered_peak_bytes", "gathered at once"}}};
  for (std::size_t rank = 0; rank < end.ranks.size(); ++rank) {
    const RankEnd& of_rank = end.ranks[rank];
    table.rows.push_back(
        {number_cell(static_cast<std::int64_t>(rank)), bytes_cell(of_rank.gathered, unit),
         bytes_cell(of_rank.planned_gathered, unit),
         equal_cell(of_rank.gathered, of_rank.planned_gathered), bytes_cell(of_rank.reduced, unit),
         bytes_cell(of_rank.planned_reduced, unit),
         equal_cell(of_rank.reduced, of_rank.planned_reduced),
         Cell{plan::show_bytes(plan::Share(of_rank.gathered_peak)),
              of_rank.gathered_peak.value()}});
  }
  return table;
}

Cell share_cell(double share) { return {fmt::format("{:.1f} %", 100 * share), share}; }

Table times_table(const RunEnd& end) {
  Table table{.key = "exchange",
              .title = "Time of the exchange",
              .columns = {{"rank", "rank"},
                          {"gathers", "gathers"},
                          {"gather_p50_seconds", "p50"},
                          {"gather_p99_seconds", "p99"},
                          {"gather_seconds", "together"},
                          {"reductions", "reductions"},
                          {"reduce_p50_seconds", "p50"},
                          {"reduce_p99_seconds", "p99"},
                          {"reduce_seconds", "together"},
                          {"hidden_share", "hidden behind compute"}}};
  for (std::size_t rank = 0; rank < end.ranks.size(); ++rank) {
    const RankEnd& of_rank = end.ranks[rank];
    std::vector<Cell> row = {number_cell(static_cast<std::int64_t>(rank))};
    for (const TimesEnd& times : {of_rank.gathers, of_rank.reductions}) {
      row.insert(row.end(), {number_cell(times.calls), seconds_cell(times.half),
                             seconds_cell(times.most), seconds_cell(times.total)});
    }
    row.push_back(share_cell(of_rank.hidden_share()));
    table.rows.push_back(std::move(row));
  }
  table.notes.emplace_back("p50 and p99: of all calls, those before the first step included.");
  return table;
}

std::string headline(const RunEnd& end, double tokens_per_second) {
  if (end.steps == 0) {
    return fmt::format("No step was made; held-out loss {}.", loss_text(end.held_out_before));
  }
  return fmt::format(
      "{}{} step{} in {}, {:.0f} tokens/s{}: loss {} to {}, held out {} to {}. Hash of all losses: "
      "{}.",
      end.interrupted ? "Interrupted after " : "", end.steps, end.steps == 1 ? "" : "s",
      plan::show_seconds(end.seconds), tokens_per_second,
      end.skipped > 0 ? fmt::format(", {} skipped for gradients that are not finite", end.skipped)
                      : "",
      loss_text(end.loss_first), loss_text(end.loss_last), loss_text(end.held_out_before),
      loss_text(end.held_out_after), end.loss_hash);
}

// Reads numbers in the order in which they were written.
class NumberReader {
 public:
  explicit NumberReader(const std::vector<double>& numbers) : numbers_(numbers) {}

  double next() {
    SHARDLIGHT_CHECK_LE(at_ + 1, numbers_.size());
    return numbers_[at_++];
  }
  Bytes bytes() { return Bytes(static_cast<std::int64_t>(next())); }
  memory::Level level() {
    const Bytes now = bytes();
    return {.now = now, .peak = bytes()};
  }
  TimesEnd times() {
    TimesEnd times{.calls = static_cast<std::int64_t>(next())};
    times.half = Seconds(next());
    times.most = Seconds(next());
    times.total = Seconds(next());
    return times;
  }

 private:
  const std::vector<double>& numbers_;
  std::size_t at_ = 0;
};

std::vector<Table> tables_of(const Preparation& preparation, const RunEnd& end) {
  std::vector<Table> tables = {memory_table(end), traffic_table(end), times_table(end)};
  if (!end.ranks.empty() && end.steps > 0) {
    tables.push_back(peak_table(preparation, end.ranks.front().total.peak));
  }
  return tables;
}

}  // namespace

double RankEnd::hidden_share() const {
  const Seconds all = gathers.total + reductions.total;
  if (all.count() <= 0) return 0;
  return std::max(0.0, 1 - waited / all);
}

std::vector<double> numbers_of(const RankEnd& end) {
  std::vector<double> numbers;
  const auto add_bytes = [&](Bytes bytes) {
    numbers.push_back(static_cast<double>(bytes.value()));
  };
  for (const TagEnd& tag : end.tags) {
    add_bytes(tag.bytes.now);
    add_bytes(tag.bytes.peak);
    add_bytes(tag.ledger.value_or(Bytes(-1)));
  }
  for (const Bytes bytes : {end.total.now, end.total.peak, end.gathered, end.reduced,
                            end.planned_gathered, end.planned_reduced, end.gathered_peak}) {
    add_bytes(bytes);
  }
  for (const TimesEnd& times : {end.gathers, end.reductions}) {
    numbers.push_back(static_cast<double>(times.calls));
    for (const Seconds time : {times.half, times.most, times.total})
      numbers.push_back(time.count());
  }
  numbers.push_back(end.waited.count());
  return numbers;
}

RankEnd rank_end_of(const std::vector<double>& numbers) {
  NumberReader reader(numbers);
  RankEnd end;
  for (TagEnd& tag : end.tags) {
    tag.bytes = reader.level();
    const Bytes ledger = reader.bytes();
    if (ledger >= Bytes(0)) tag.ledger = ledger;
  }
  end.total = reader.level();
  for (Bytes* bytes : {&end.gathered, &end.reduced, &end.planned_gathered, &end.planned_reduced,
                       &end.gathered_peak}) {
    *bytes = reader.bytes();
  }
  end.gathers = reader.times();
  end.reductions = reader.times();
  end.waited = Seconds(reader.next());
  return end;
}

Report end_report(const Preparation& preparation, const RunEnd& end) {
  const double tokens =
      static_cast<double>(end.steps) * static_cast<double>(preparation.tokens_per_step());
  const double rate = end.seconds.count() > 0 ? tokens / end.seconds.count() : 0;
  return {.headline = headline(end, rate),
          .settings = {{"steps", end.steps},
                       {"skipped_steps", end.skipped},
                       {"interrupted", end.interrupted},
                       {"ranks", static_cast<std::int64_t>(end.ranks.size())},
                       {"cores", end.cores},
                       {"tokens", static_cast<std::int64_t>(tokens)},
                       {"seconds", end.seconds.count()},
                       {"tokens_per_second", rate},
                       {"loss_first", end.loss_first},
                       {"loss_last", end.loss_last},
                       {"held_out_loss_before", end.held_out_before},
                       {"held_out_loss_after", end.held_out_after},
                       {"loss_hash", end.loss_hash},
                       {"sample", end.sample}},
          .tables = tables_of(preparation, end),
          .advice = {}};
}

}  // namespace shardlight::cli
