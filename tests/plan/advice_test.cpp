// Each test flips one input and sees the advice flip.
#include "shardlight/plan/advice.h"

#include <gtest/gtest.h>

#include "shardlight/plan/builtin_models.h"

namespace shardlight::plan {
namespace {

constexpr Capabilities kPlansOnly{};
constexpr Capabilities kFull{.trains = true, .one_sided_exchange = true};

PlanRequest request_7b() {
  return {.model = {.name = {}, .parameters = Count(7'500'000'000), .table = {}, .shape = {}},
          .ranks = 64};
}

const Advice* find(const std::vector<Advice>& all, const std::string& id) {
  for (const Advice& advice : all) {
    if (advice.id == id) return &advice;
  }
  return nullptr;
}

std::vector<Advice> advice_for(const PlanRequest& request, Capabilities build = kFull) {
  return advise(*make_plan(request), build);
}

bool advised(const PlanRequest& request, const std::string& id, Capabilities build = kFull) {
  const auto all = advice_for(request, build);
  return find(all, id) != nullptr;
}

std::string text_of(const PlanRequest& request, const std::string& id) {
  const auto all = advice_for(request);
  const Advice* advice = find(all, id);
  return advice == nullptr ? "" : advice->text;
}

TEST(Advice, TheLowestStageThatFitsFollowsTheMemory) {
  PlanRequest request = request_7b();
  const auto lowest = [&](std::int64_t gigabytes) {
    request.device_memory = Bytes(gigabytes * 1'000'000'000);
    return lowest_fitting_stage(*make_plan(request));
  };
  EXPECT_EQ(lowest(120), 0);
  EXPECT_EQ(lowest(119), 1);
  EXPECT_EQ(lowest(31), 2);
  EXPECT_EQ(lowest(16), 3);
  EXPECT_EQ(lowest(1), std::nullopt);
}

TEST(Advice, SaysWhyTheLowestIsBest) {
  PlanRequest request = request_7b();
  request.device_memory = Bytes(32'000'000'000);
  EXPECT_EQ(
      text_of(request, "use-lowest"),
      "Stage 1 is the lowest that fits: 31.4 GB of 32 GB a rank, counting only the lines that "
      "are known. Stage 0 needs 120 GB. None that fits sends less than its 30 GB a step, and none "
      "keeps more "
      "of the states on every rank.");
  EXPECT_EQ(text_of(request, "not-3-fits-lower"),
            "Not stage 3: stage 1 fits (31.4 GB of 32 GB) and sends 30 GB a step, stage 3 45 GB.");
  request.device_memory = Bytes(8'000'000'000);
  EXPECT_NE(text_of(request, "use-lowest").find("Stage 2 needs 16.6 GB"), std::string::npos);
  request.device_memory = Bytes(200'000'000'000);
  EXPECT_NE(text_of(request, "use-lowest").find("None that fits sends less than its 30 GB"),
            std::string::npos);
}

TEST(Advice, NotStage3WhereALowerOneFits) {
  PlanRequest request = request_7b();
  EXPECT_FALSE(advised(request, "not-3-fits-lower"));  // no memory given, nothing claimed
  request.device_memory = Bytes(32'000'000'000);
  EXPECT_TRUE(advised(request, "not-3-fits-lower"));
  request.device_memory = Bytes(8'000'000'000);  // only stage 3 fits
  EXPECT_FALSE(advised(request, "not-3-fits-lower"));
}

TEST(Advice, WhereNothingFitsItSaysFromHowManyRanksItWould) {
  PlanRequest request = request_7b();
  request.device_memory = Bytes(1'000'000'000);
  EXPECT_FALSE(advised(request, "use-lowest"));
  EXPECT_NE(text_of(request, "none-fits").find("From 120 ranks on one would"), std::string::npos);
  request.ranks = 119;
  EXPECT_TRUE(advised(request, "none-fits"));
  request.ranks = 120;
  EXPECT_FALSE(advised(request, "none-fits"));
  EXPECT_TRUE(advised(request, "use-lowest"));
}

TEST(Advice, WhereActivationsAreTooLargeItSaysSo) {
  PlanRequest request{.model = *builtin_model("gpt2-xl"), .ranks = 64};
  request.batch = Batch{.micro_batch = 32, .sequence = 1024};
  request.device_memory = Bytes(32'000'000'000);
  EXPECT_NE(text_of(request, "none-fits").find("or full checkpointing"), std::string::npos);
  request.checkpointing = Checkpointing::kFull;
  request.device_memory = Bytes(5'000'000'000);
  EXPECT_NE(text_of(request, "none-fits").find("a smaller micro-batch"), std::string::npos);
  EXPECT_EQ(text_of(request, "none-fits").find("or full checkpointing"), std::string::npos);
  request.batch->micro_batch = 1;  // now the states are what does not fit
  request.ranks = 1;
  EXPECT_EQ(text_of(request, "none-fits").find("a smaller micro-batch"), std::string::npos);
}

PlanRequest timed_request() {
  PlanRequest request{.model = *builtin_model("llama-7b"), .ranks = 64};
  request.batch = Batch{.micro_batch = 1, .sequence = 2048};
  request.interconnect = *interconnect_preset("ib-edr");
  request.compute = Compute{.peak_flops = 312e12, .efficiency = 0.4};
  return request;
}

TEST(Advice, NotStage3WhereItsTrafficOutlastsTheCompute) {
  PlanRequest request = timed_request();
  EXPECT_TRUE(advised(request, "not-3-traffic-time"));
  PlanRequest faster_link = request;
  faster_link.interconnect = *interconnect_preset("nvswitch");
  EXPECT_FALSE(advised(faster_link, "not-3-traffic-time"));
  PlanRequest more_tokens = request;
  more_tokens.batch->micro_batch = 32;
  EXPECT_FALSE(advised(more_tokens, "not-3-traffic-time"));
  PlanRequest slower_device = request;
  slower_device.compute->peak_flops = 10e12;
  EXPECT_FALSE(advised(slower_device, "not-3-traffic-time"));
  request.compute.reset();  // unknown compute, nothing claimed
  EXPECT_FALSE(advised(request, "not-3-traffic-time"));
}

TEST(Advice, WhereEveryStageWaitsForTheLinkItSaysHowManyTokensWouldHideIt) {
  PlanRequest request = timed_request();
  const Plan plan = *make_plan(request);
  const double times = plan.stages[0].traffic_time->count() / plan.compute_time->count();
  EXPECT_GT(times, 1);
  EXPECT_TRUE(advised(request, "link-bound"));
  request.batch->micro_batch = static_cast<std::int64_t>(times) + 1;
  EXPECT_FALSE(advised(request, "link-bound"));
}

TEST(Advice, WhatItSaysOfTheRanksNeededHoldsFromOneRankToo) {
  // At one rank nothing is gathered; the units' room must be counted all the same.
  PlanRequest request{.model = *builtin_model("llama-7b"), .ranks = 1};
  request.device_memory = Bytes(300'000'000);
  EXPECT_EQ(text_of(request, "none-fits").find("ranks on"), std::string::npos);
  request.device_memory = Bytes(3'000'000'000);
  const std::string text = text_of(request, "none-fits");
  const std::size_t from = text.find("From ");
  ASSERT_NE(from, std::string::npos) << text;
  request.ranks = std::stoll(text.substr(from + 5));
  EXPECT_TRUE(lowest_fitting_stage(*make_plan(request)).has_value());
  --request.ranks;
  EXPECT_FALSE(lowest_fitting_stage(*make_plan(request)).has_value());
}

TEST(Advice, SaysSoWhereAHigherStageSendsLess) {
  PlanRequest request = request_7b();
  request.accumulation_steps = 8;
  request.reduce = ReduceSetting::kEveryMicroStep;  // stage 0 all-reduces 8 times
  request.device_memory = Bytes(200'000'000'000);
  EXPECT_NE(text_of(request, "use-lowest").find("sends less"), std::string::npos);
}

TEST(Advice, WhereOnlyStage3FitsItsReasonsAreItsPrice) {
  PlanRequest request = request_7b();
  request.wants_replicas = true;
  request.device_memory = Bytes(32'000'000'000);
  EXPECT_EQ(text_of(request, "not-3-replicas").find("Not stage 3:"), 0U);
  request.device_memory = Bytes(8'000'000'000);
  EXPECT_EQ(text_of(request, "not-3-replicas").find("The price of stage 3"), 0U);
}

TEST(Advice, NotStage3WithTinyUnits) {
  PlanRequest request = timed_request();
  EXPECT_FALSE(advised(request, "not-3-tiny-units"));
  request.model = *builtin_model("gpt2");
  request.batch = Batch{.micro_batch = 1, .sequence = 1024};
  request.interconnect->latency = Seconds(50e-6);
  EXPECT_TRUE(advised(request, "not-3-tiny-units"));
  request.unit_bytes = Bytes(200'000'000);
  EXPECT_FALSE(advised(request, "not-3-tiny-units"));
}

TEST(Advice, NotStage3WhereReplicasAreWanted) {
  PlanRequest request = request_7b();
  EXPECT_FALSE(advised(request, "not-3-replicas"));
  request.wants_replicas = true;
  EXPECT_TRUE(advised(request, "not-3-replicas"));
}

TEST(Advice, NotStage3WithDynamicControlFlowOverCollectives) {
  PlanRequest request = request_7b();
  request.dynamic_control_flow = true;
  request.exchange = Exchange::kCollective;
  EXPECT_TRUE(advised(request, "not-3-control-flow"));
  request.exchange = Exchange::kOneSided;
  EXPECT_FALSE(advised(request, "not-3-control-flow"));
  request.exchange = Exchange::kCollective;
  request.dynamic_control_flow = false;
  EXPECT_FALSE(advised(request, "not-3-control-flow"));
}

TEST(Advice, OneRankHasNothingToShare) {
  PlanRequest request = request_7b();
  EXPECT_FALSE(advised(request, "one-rank"));
  request.ranks = 1;
  request.wants_replicas = true;
  const auto all = advice_for(request);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, "one-rank");
}

TEST(Advice, NothingThatThisBuildCannotDo) {
  PlanRequest request = request_7b();
  request.dynamic_control_flow = true;
  request.exchange = Exchange::kCollective;
  EXPECT_TRUE(advised(request, "plans-only", kPlansOnly));
  EXPECT_FALSE(advised(request, "plans-only", kFull));
  const auto mentions_one_sided = [&](Capabilities build) {
    const auto all = advice_for(request, build);
    return find(all, "not-3-control-flow")->text.find("one-sided") != std::string::npos;
  };
  EXPECT_TRUE(mentions_one_sided(kFull));
  EXPECT_FALSE(mentions_one_sided(kPlansOnly));
}

// Whatever is said, each sentence holds the values it rests on, and nothing that nobody built.
TEST(Advice, EveryCitedValueStandsInItsSentence) {
  std::vector<PlanRequest> requests = {request_7b(), timed_request()};
  for (const std::int64_t gigabytes : {1, 8, 20, 32, 200}) {
    for (PlanRequest request : {request_7b(), timed_request()}) {
      request.device_memory = Bytes(gigabytes * 1'000'000'000);
      request.wants_replicas = true;
      request.dynamic_control_flow = true;
      request.exchange = Exchange::kCollective;
      requests.push_back(request);
    }
  }
  for (const PlanRequest& request : requests) {
    for (const Advice& advice : advice_for(request, kPlansOnly)) {
      EXPECT_TRUE(!advice.cites.empty() || advice.id == "plans-only") << advice.text;
      for (const Citation& citation : advice.cites) {
        EXPECT_NE(advice.text.find(citation.value), std::string::npos)
            << citation.name << " = " << citation.value << " in: " << advice.text;
      }
      for (const char* unbuilt : {"offload", "NVMe", "hybrid", "pipeline"}) {
        EXPECT_EQ(advice.text.find(unbuilt), std::string::npos) << advice.text;
      }
    }
  }
}

}  // namespace
}  // namespace shardlight::plan
