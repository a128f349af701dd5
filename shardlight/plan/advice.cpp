#include "shardlight/plan/advice.h"

#include <fmt/format.h>

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

bool everything_known(const Plan& plan) { return plan.units && plan.activations; }

const char* counted(const Plan& plan) {
  return everything_known(plan) ? "" : ", counting only the lines that are known";
}

std::string memory_of(Sentence& sentence, const Plan& plan) {
  return sentence.cite("device memory", show_bytes(Share(*plan.request.device_memory)));
}

Advice one_rank(const Plan& plan) {
  Sentence sentence("one-rank");
  const std::string ranks = sentence.cite("ranks", fmt::to_string(plan.request.ranks));
  return std::move(sentence).saying(fmt::format(
      "With {} rank there is nothing to share: all stages cost the same, use stage 0.", ranks));
}

// Why the lowest stage that fits is the best of those that do.
std::string reason_for(Sentence& sentence, const Plan& plan, int lowest) {
  if (lowest == 0) {
    return "Nothing has to be gathered before it is used, and any rank holds all there is.";
  }
  const StagePlan& below = plan.stages[lowest - 1];
  if (lowest == 3) {
    return fmt::format("Stage 2 needs {}; stage 3 saves that by sending {} a step instead of {}.",
                       sentence.peak(below), sentence.traffic(plan.stages[3]),
                       sentence.traffic(below));
  }
  return fmt::format(
      "Stage {} needs {}. A higher stage would save memory that is not needed, and stage 3 would "
      "send {} a step instead of {}.",
      lowest - 1, sentence.peak(below), sentence.traffic(plan.stages[3]),
      sentence.traffic(plan.stages[lowest]));
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

Advice none_fits(const Plan& plan) {
  Sentence sentence("none-fits");
  const StagePlan& last = plan.stages[3];
  std::string text = fmt::format("No stage fits: stage 3 needs {} of {} a rank{}.",
                                 sentence.peak(last), memory_of(sentence, plan), counted(plan));
  const Share beside = last.peak.floor() > last.states.total().ceiling()
                           ? Share(last.peak.floor() - last.states.total().ceiling())
                           : Share();
  const Bytes room = *plan.request.device_memory - beside.ceiling();
  const WideInteger all =
      static_cast<WideInteger>(plan.request.model.parameters.value()) * plan.bytes.total();
  if (room > Bytes(0) && all / room.value() < layout::kMaxRanks) {
    const auto ranks = static_cast<std::int64_t>((all + room.value() - 1) / room.value());
    text += fmt::format(" Its states are {} of that and would fit from about {} ranks on.",
                        sentence.cite("stage 3 states", show_bytes(last.states.total())),
                        sentence.cite("ranks needed", fmt::to_string(ranks)));
  }
  if (plan.activations && plan.request.checkpointing != Checkpointing::kFull) {
    text += fmt::format(
        " Activations are {} of it with checkpointing {}: a smaller micro-batch or "
        "full checkpointing keeps less.",
        sentence.cite("activations", show_bytes(Share(plan.activations->kept()))),
        sentence.cite("checkpointing", std::string(name_of(plan.request.checkpointing))));
  }
  return std::move(sentence).saying(std::move(text));
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
      fmt::format("Not stage 3: stage {} fits ({} of {}) and sends {} a step against {}.", *lowest,
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
  return std::move(sentence).saying(
      fmt::format("Not stage 3 over {} unless memory leaves no choice: its traffic takes {} a "
                  "step, longer than "
                  "the {} of compute that could hide it (stage 2: {}).",
                  link, on_link, computing, below));
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
  return std::move(sentence).saying(fmt::format(
      "Not stage 3 with units this small: gathering the median unit of {} over {} ranks costs {} "
      "of "
      "latency against {} of moving bytes, twice a step; larger units help.",
      size, ranks, latency, bytes));
}

std::optional<Advice> not_3_replicas(const Plan& plan) {
  if (!plan.request.wants_replicas) return std::nullopt;
  Sentence sentence("not-3-replicas");
  const std::string share =
      sentence.cite("stage 3 parameters", show_bytes(plan.stages[3].states.parameters));
  const std::string ranks = sentence.cite("ranks", fmt::to_string(plan.request.ranks));
  return std::move(sentence).saying(fmt::format(
      "Not stage 3 where replicas are wanted: each of {} ranks holds its own {} of the parameters "
      "and nobody else does, so a lost rank cannot be restored from another and a checkpoint needs "
      "every rank. Stages 0 to 2 keep the parameters on every rank.",
      ranks, share));
}

std::optional<Advice> not_3_control_flow(const Plan& plan, const Capabilities& build) {
  if (!plan.request.dynamic_control_flow || plan.request.exchange != Exchange::kCollective) {
    return std::nullopt;
  }
  Sentence sentence("not-3-control-flow");
  const std::string exchange =
      sentence.cite("exchange", std::string(name_of(plan.request.exchange)));
  std::string text = fmt::format(
      "Not stage 3 over a {}-only exchange with dynamic control flow: every gather needs all ranks "
      "in the same order, and ranks that touch different parameters would not keep it.",
      exchange);
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
