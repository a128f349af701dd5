#include "shardlight/cli/train/progress.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardlight/cli/output.h"
#include "shardlight/plan/display.h"

namespace shardlight::cli {
namespace {

constexpr std::size_t kWindow = 20;  // steps that the speed is taken over
constexpr const char* kOverwrite = "\r\x1b[K";

double seconds(Clock::Duration duration) { return Seconds(duration).count(); }

std::string rate_text(double per_second) {
  return per_second < 1000 ? fmt::format("{:.0f}", per_second)
                           : fmt::format("{:.1f}k", per_second / 1000);
}

std::string duration_text(double left) {
  const std::int64_t whole = std::llround(left);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace

Progress::Progress(std::ostream& out, const ProgressOptions& options, const Clock& clock)
    : out_(out), options_(options), clock_(clock), ends_{clock.now()} {}

Status Progress::show(const StepLine& line) {
  ends_.push_back(clock_.now());
  if (ends_.size() > kWindow + 1) ends_.pop_front();
  if (options_.terminal) {
    out_ << kOverwrite << text_of(line);
    line_open_ = true;
    return flush_output(out_);
  }
  const bool edge = line.step == 1 || line.step == options_.steps;
  if (!edge && line.step % options_.log_every != 0) return {};
  out_ << text_of(line) << "\n";
  return flush_output(out_);
}

Status Progress::finish() {
  if (line_open_) out_ << "\n";
  line_open_ = false;
  return flush_output(out_);
}

std::string Progress::text_of(const StepLine& line) const {
  const double each = seconds(ends_.back() - ends_.front()) / static_cast<double>(ends_.size() - 1);
  const double rate = each > 0 ? static_cast<double>(options_.tokens_per_step) / each : 0;
  Bytes gathered, total;
  for (const RankStep& rank : line.ranks) {
    gathered = std::max(gathered, rank.gathered);
    total = std::max(total, rank.total);
  }
  const auto left = static_cast<double>(options_.steps - line.step);
  return fmt::format("step {}/{}  loss {}  {} tokens/s  {} left  gathered {}  total {}", line.step,
                     options_.steps, loss_text(line.loss), rate_text(rate),
                     duration_text(left * each), plan::show_bytes(plan::Share(gathered)),
                     plan::show_bytes(plan::Share(total)));
}

std::string loss_text(double loss) { return fmt::format("{:.9g}", loss); }

std::string jsonl_of(const StepLine& line, std::int64_t tokens_per_step) {
  std::string text;
  const double tokens =
      static_cast<double>(tokens_per_step) / static_cast<double>(line.ranks.size());
  for (std::size_t rank = 0; rank < line.ranks.size(); ++rank) {
    const RankStep& of_rank = line.ranks[rank];
    nlohmann::ordered_json json = {{"step", line.step},
                                   {"rank", rank},
                                   {"loss", of_rank.loss},
                                   {"loss_mean", line.loss},
                                   {"lr", line.lr}};
    json["gradient_norm"] =
        line.gradient_norm ? nlohmann::ordered_json(*line.gradient_norm) : nullptr;
    json["seconds"] = of_rank.seconds;
    json["tokens_per_second"] = of_rank.seconds > 0 ? tokens / of_rank.seconds : 0;
    json["gathered_bytes"] = of_rank.gathered.value();
    json["total_bytes"] = of_rank.total.value();
    text += json.dump() + "\n";
  }
  return text;
}

void LossHash::add(double loss) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  const auto bits = std::bit_cast<std::uint64_t>(loss);
  for (unsigned byte = 0; byte < 8; ++byte) {
    hash_ = (hash_ ^ (bits >> (8 * byte) & 0xFFU)) * kPrime;
  }
}

std::string LossHash::text() const { return fmt::format("{:016x}", hash_); }

}  // namespace shardlight::cli
