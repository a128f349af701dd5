#include "shardlight/plan/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "shardlight/plan/display.h"

namespace shardlight::plan {
namespace {

// Builds a sentence and its citations together, so that a value is cited where it is used.
class Sentence {
 public:
  explicit Sentence(std::string id) { advice_.id = std::move(id); }

  std::string cite(std::string name, std::string value) {
    advice_.cites.push_back({std::move(name), value});
    return value;
  }
  std::string peak(const StagePlan& stage) {
    return cite(fmt::format("stage {} peak", stage.stage), show_bytes(stage.peak));
  }
  std::string traffic(const StagePlan& stage) {
    return cite(fmt::format("stage {} traffic", stage.stage), show_bytes(stage.traffic.bytes));
  }
  Advice saying(std::string text) && {
    advice_.text = std::move(text);
    return std::move(advice_);
  }

 private:
  Advice advice_;
};

const char* counted(const Plan& plan) {
  return plan.peaks_complete() ? "" : ", counting only the lines that are known";
}

// How a reason against stage 3 begins.
const char* against_stage_3(const Plan& plan) {
  return lowest_fitting_stage(plan) == 3 ? "The price of stage 3, the only one that fits:"
                                         : "Not stage 3:";
}

std::string memory_of(Sentence& sentence, const Plan& plan) {
  return sentence.cite("device memory", show_bytes(Share(*plan.request.device_memory)));
}

Advice one_rank(const Plan& plan) {
  Sentence sentence("one-rank");
  const std::string ranks = sentence.cite("ranks", fmt::to_string(plan.request.ranks));
  return std::move(sentence).saying(
      fmt::format("With {} rank there is nothing to share: all stages cost the same.", ranks));
}

// Why the lowest stage that fits is the best of those that do, or what speaks for a higher one.
std::string reason_for(Sentence& sentence, const Plan& plan, int lowest) {
  const StagePlan& stage = plan.stages[lowest];
  const StagePlan* least = &stage;
  for (const StagePlan& other : plan.stages) {
    const bool candidate = other.stage > lowest && other.fits.value_or(false);
    if (candidate && other.traffic.bytes < least->traffic.bytes) least = &other;
  }
  std::string text;
  if (lowest > 0) {
    text = fmt::format("Stage {} needs {}. ", lowest - 1, sentence.peak(plan.stages[lowest - 1]));
  }
  if (least != &stage) {
    return text + fmt::format("Stage {} fits too and sends less, {} a step against {}.",
                              least->stage, sentence.traffic(*least), sentence.traffic(stage));
  }
  if (lowest == 3) {
    return text + fmt::format("It sends {} a step, stage 2 {}.", sentence.traffic(stage),
                              sentence.traffic(plan.stages[2]));
  }
  return text + fmt::format(
                    "None that fits sends less than its {} a step, and none keeps more of "
                    "the states on every rank.",
                    sentence.traffic(stage));
}

Advice use_lowest(const Plan& plan, int lowest) {
  Sentence sentence("use-lowest");
  const std::string needs = sentence.peak(plan.stages[lowest]);
  const std::string memory = memory_of(sentence, plan);
  const std::string reason = reason_for(sentence, plan, lowest);
  return std::move(sentence).saying(
      fmt::format("Stage {} is the lowest that fits: {} of {} a rank{}. {}", lowest, needs, memory,
                  counted(plan), reason));
}

// The fewest ranks with which some stage fits, more than there are; nothing if there are none.
std::optional<std::int64_t> ranks_that_fit(const Plan& plan) {
  const auto fits = [&](std::int64_t ranks) {
    PlanRequest request = plan.request;
    request.ranks = ranks;
    const auto other = make_plan(std::move(request));
    return other && lowest_fitting_stage(*other).has_value();
  };
  std::int64_t enough = plan.request.ranks;
  std::int64_t too_few = enough;
  while (enough < layout::kMaxRanks) {
    too_few = enough;
    enough = std::min(2 * enough, layout::kMaxRanks);
    if (!fits(enough)) continue;
    while (enough - too_few > 1) {
      const std::int64_t middle = (enough + too_few) / 2;
      (fits(middle) ? enough : too_few) = middle;
    }
    return enough;
  }
  return std::nullopt;
}

// What to change about the batch, where the activations alone are too much.
std::string smaller_activations(Sentence& sentence, const Plan& plan) {
  const PlanRequest& request = plan.request;
  if (!plan.activations || plan.activations->kept() <= *request.device_memory) return {};
  std::vector<std::string> means;
  if (request.batch->micro_batch > 1) means.emplace_back("a smaller micro-batch");
  PlanRequest full = request;
  full.checkpointing = Checkpointing::kFull;
  const auto recomputed = make_plan(std::move(full));
  if (recomputed && recomputed->stages[0].peak < plan.stages[0].peak) {
    means.emplace_back("full checkpointing");
  }
  if (request.batch->sequence > 1) means.emplace_back("a shorter sequence");
  return fmt::format(" Activations alone are {} with checkpointing {}; less is kept with {}.",
                     sentence.cite("activations", show_bytes(Share(plan.activations->kept()))),
                     sentence.cite("checkpointing", std::string(name_of(request.checkpointing))),
                     fmt::join(means, " or "));
}

Advice none_fits(const Plan& plan) {
  Sentence sentence("none-fits");
  const StagePlan& least =
      *std::min_element(plan.stages.begin(), plan.stages.end(),
                        [](const StagePlan& a, const StagePlan& b) { return a.peak < b.peak; });
  std::string text =
      fmt::format("No stage fits: stage {} needs least, {} of {} a rank{}.", least.stage,
                  sentence.peak(least), memory_of(sentence, plan), counted(plan));
  if (const auto ranks = ranks_that_fit(plan)) {
    text += fmt::format(" From {} ranks on one would.",
                        sentence.cite("ranks needed", fmt::to_string(*ranks)));
  }
  return std::move(sentence).saying(text + smaller_activations(sentence, plan));
}

std::optional<Advice> not_3_fits_lower(const Plan& plan) {
  const auto lowest = lowest_fitting_stage(plan);
  if (!lowest || *lowest == 3) return std::nullopt;
  Sentence sentence("not-3-fits-lower");
  const StagePlan& stage = plan.stages[*lowest];
  const std::string needs = sentence.peak(stage);
  const std::string memory = memory_of(sentence, plan);
  const std::string less = sentence.traffic(stage);
  const std::string more = sentence.traffic(plan.stages[3]);
  return std::move(sentence).saying(
      fmt::format("Not stage 3: stage {} fits ({} of {}) and sends {} a step, stage 3 {}.", *lowest,
                  needs, memory, less, more));
}

std::optional<Advice> not_3_traffic_time(const Plan& plan) {
  const auto& traffic = plan.stages[3].traffic_time;
  if (!traffic || !plan.compute_time || *traffic <= *plan.compute_time) return std::nullopt;
  Sentence sentence("not-3-traffic-time");
  const std::string on_link = sentence.cite("stage 3 traffic time", show_seconds(*traffic));
  const std::string link = sentence.cite("interconnect", plan.request.interconnect->name);
  const std::string computing = sentence.cite("compute time", show_seconds(*plan.compute_time));
  const std::string below =
      sentence.cite("stage 2 traffic time", show_seconds(*plan.stages[2].traffic_time));
  return std::move(sentence).saying(fmt::format(
      "{} over {} its traffic takes {} a step, longer than the {} of compute that could "
      "hide it (stage 2: {}).",
      against_stage_3(plan), link, on_link, computing, below));
}

// Where even the least traffic outlasts the compute: by how much more tokens would have to be
// added.
std::optional<Advice> link_bound(const Plan& plan) {
  const auto& traffic = plan.stages[0].traffic_time;
  if (!traffic || !plan.compute_time || *traffic <= *plan.compute_time) return std::nullopt;
  Sentence sentence("link-bound");
  const std::string on_link = sentence.cite("stage 0 traffic time", show_seconds(*traffic));
  const std::string computing = sentence.cite("compute time", show_seconds(*plan.compute_time));
  const std::string times =
      sentence.cite("tokens, times", show_ratio(traffic->count() / plan.compute_time->count()));
  return std::move(sentence).saying(
      fmt::format("Every stage waits for the link: at stage 0 the traffic takes {} a step, the "
                  "compute {}. With {} times the tokens a step the compute could hide it.",
                  on_link, computing, times));
}

// The unit in the middle by size: half of the gathers move no more than it.
Count median_unit(const Plan& plan) {
  std::vector<Count> sizes;
  for (const layout::Unit& unit : *plan.units) sizes.push_back(unit.elements);
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return *middle;
}

std::optional<Advice> not_3_tiny_units(const Plan& plan) {
  if (!plan.units || plan.units->empty() || !plan.request.interconnect) return std::nullopt;
  const Interconnect& link = *plan.request.interconnect;
  const Bytes unit(median_unit(plan).value() * plan.bytes.parameter);
  Interconnect without_latency = link;
  without_latency.latency = Seconds(0);
  const auto gather = [&](const Interconnect& over) {
    return ring_time(Collective::kAllGather, static_cast<double>(unit.value()), plan.request.ranks,
                     1, over);
  };
  const Seconds moving = gather(without_latency);
  const Seconds waiting = gather(link) - moving;
  if (waiting <= moving) return std::nullopt;
  Sentence sentence("not-3-tiny-units");
  const std::string size = sentence.cite("median unit", show_bytes(Share(unit)));
  const std::string ranks = sentence.cite("ranks", fmt::to_string(plan.request.ranks));
  const std::string latency = sentence.cite("latency of a gather", show_seconds(waiting));
  const std::string bytes = sentence.cite("bytes of a gather", show_seconds(moving));
  return std::move(sentence).saying(
      fmt::format("{} its units are small. Gathering the median one, {}, over {} ranks costs {} of "
                  "latency against {} of moving bytes, twice a micro-step{}.",
                  against_stage_3(plan), size, ranks, latency, bytes,
                  plan.units->size() > 1 ? "; larger units help" : ""));
}

std::optional<Advice> not_3_replicas(const Plan& plan) {
  if (!plan.request.wants_replicas) return std::nullopt;
  Sentence sentence("not-3-replicas");
  const std::string share =
      sentence.cite("stage 3 states", show_bytes(plan.stages[3].states.total()));
  const std::string ranks = sentence.cite("ranks", fmt::to_string(plan.request.ranks));
  return std::move(sentence).saying(fmt::format(
      "{} replicas are wanted and nothing is held twice, so what a lost rank of {} held "
      "({}) is lost, and a checkpoint needs every rank. Stages 1 and 2 hold the "
      "parameters on every rank, stage 0 the optimizer states too.",
      against_stage_3(plan), ranks, share));
}

std::optional<Advice> not_3_control_flow(const Plan& plan, const Capabilities& build) {
  if (!plan.request.dynamic_control_flow || plan.request.exchange != Exchange::kCollective) {
    return std::nullopt;
  }
  Sentence sentence("not-3-control-flow");
  const std::string exchange =
      sentence.cite("exchange", std::string(name_of(plan.request.exchange)));
  std::string text = fmt::format(
      "{} over a {} exchange with dynamic control flow, every gather needs all ranks in the same "
      "order, and ranks that touch different parameters would not keep it.",
      against_stage_3(plan), exchange);
  if (build.one_sided_exchange) text += " A one-sided exchange needs no order.";
  return std::move(sentence).saying(std::move(text));
}

}  // namespace

std::optional<int> lowest_fitting_stage(const Plan& plan) {
  for (const StagePlan& stage : plan.stages) {
    if (stage.fits.value_or(false)) return stage.stage;
  }
  return std::nullopt;
}

std::vector<Advice> advise(const Plan& plan, const Capabilities& build) {
  std::vector<Advice> all;
  const auto add = [&all](std::optional<Advice> advice) {
    if (advice) all.push_back(*std::move(advice));
  };
  const auto lowest = lowest_fitting_stage(plan);
  if (plan.request.device_memory && !lowest) {
    add(none_fits(plan));
  } else if (plan.request.ranks > 1 && lowest) {
    add(use_lowest(plan, *lowest));
  }
  if (plan.request.ranks == 1) {
    add(one_rank(plan));
  } else {
    add(not_3_fits_lower(plan));
    add(not_3_traffic_time(plan));
    add(link_bound(plan));
    add(not_3_tiny_units(plan));
    add(not_3_replicas(plan));
    add(not_3_control_flow(plan, build));
  }
  if (!build.trains) {
    add(Sentence("plans-only").saying("This build plans only: it has no engine to train with."));
  }
  return all;
}

}  // namespace shardlight::plan
