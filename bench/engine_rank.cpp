// One rank of the engine's benchmarks: trains the GPT of shardlight/model on random tokens and
// prints its times as a JSON line; bench/engine_overhead.py and bench/engine_memory.py start it.
//
//   engine_rank VARIANT HIDDEN LAYERS VOCABULARY BATCH SEQUENCE STEPS [pss]
//
// VARIANT: floor (the same model and fused AdamW, no engine), or stage0 … stage3, shared3, whose
// model the engine builds. With pss also the growth of this process's proportional set size from
// before the model to its peak, sampled every 20 ms: then its times do not count.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/process_memory.h"
#include "shardlight/comm/place.h"
#include "shardlight/engine/engine.h"
#include "shardlight/model/gpt.h"

namespace {

using shardlight::proportional_bytes;
using shardlight::engine::AdamW;
using shardlight::engine::Engine;
using shardlight::engine::Options;

struct Shape {
  std::int64_t hidden, layers, vocabulary, batch, sequence, steps;
};

constexpr AdamW kOptimizer{.lr = 3e-4};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Torch's fused AdamW on whole parameters, as a plain process has it.
class PlainAdamW {
 public:
  explicit PlainAdamW(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const at::Tensor& parameter : parameters_) {
      m_.push_back(at::zeros_like(parameter));
      v_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }
  void step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    for (const at::Tensor& step : steps_) step.add_(1);
    at::_fused_adamw_(parameters_, gradients, m_, v_, {}, steps_, kOptimizer.lr, kOptimizer.beta1,
                      kOptimizer.beta2, kOptimizer.weight_decay, kOptimizer.epsilon, false, false);
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  std::vector<at::Tensor> parameters_, m_, v_, steps_;
};

class PeakSampler {
 public:
  PeakSampler() : thread_([this](const std::stop_token& stop) { sample(stop); }) {}
  std::int64_t growth() {
    thread_.request_stop();
    thread_.join();
    return peak_ - before_;
  }

 private:
  void sample(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      peak_ = std::max(peak_, proportional_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::int64_t before_ = proportional_bytes();
  std::int64_t peak_ = before_;
  std::jthread thread_;
};

int run(const std::string& variant, const Shape& shape, std::int64_t rank, bool samples) {
  std::unique_ptr<PeakSampler> sampler;
  if (samples) sampler = std::make_unique<PeakSampler>();
  const auto make = [&] {
    return std::make_shared<shardlight::model::Gpt>(
        shardlight::model::GptOptions{.vocabulary = shape.vocabulary,
                                      .positions = shape.sequence,
                                      .hidden = shape.hidden,
                                      .layers = shape.layers,
                                      .heads = shape.hidden / 64},
        1);
  };
  std::shared_ptr<shardlight::model::Gpt> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<PlainAdamW> plain;
  at::manual_seed(0);  // the same on all ranks while they build
  if (variant == "floor") {
    model = make();
    plain = std::make_unique<PlainAdamW>(model->parameters());
  } else {
    Options options{.stage = variant.back() - '0', .shared_units = variant.starts_with("shared")};
    engine = std::make_unique<Engine>(kOptimizer, options);
    model = engine->build(make);
  }
  at::manual_seed(static_cast<std::uint64_t>(rank));
  const at::Tensor tokens =
      at::randint(shape.vocabulary, {shape.batch, shape.sequence + 1}, at::kLong);
  std::vector<double> wall, cpu, adamw;  // the last one of the floor alone
  double loss_value = 0;
  for (std::int64_t step = 0; step < shape.steps; ++step) {
    const auto began = std::chrono::steady_clock::now();
    const double cpu_began = cpu_seconds();
    const at::Tensor loss = model->loss(tokens);
    if (engine) {
      engine->backward(loss);
      engine->step();
    } else {
      loss.backward();
      const double adamw_began = cpu_seconds();
      plain->step();
      adamw.push_back(cpu_seconds() - adamw_began);
    }
    loss_value = loss.item<double>();
    cpu.push_back(cpu_seconds() - cpu_began);
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  const std::string growth = sampler ? std::to_string(sampler->growth()) : "null";
  std::string line = "{\"rank\": " + std::to_string(rank) + ", \"variant\": \"" + variant + "\"";
  line += ", \"loss\": " + std::to_string(loss_value) + ", \"pss_growth\": " + growth;
  for (const auto& [name, times] :
       {std::pair("wall", &wall), std::pair("cpu", &cpu), std::pair("adamw_cpu", &adamw)}) {
    line += std::string(", \"") + name + "\": [";
    for (std::size_t i = 0; i < times->size(); ++i) {
      line += (i > 0 ? ", " : "") + std::to_string((*times)[i]);
    }
    line += "]";
  }
  std::printf("%s}\n", line.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(
        stderr, "usage: engine_rank VARIANT HIDDEN LAYERS VOCABULARY BATCH SEQUENCE STEPS [pss]\n");
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  const Shape shape{number(2), number(3), number(4), number(5), number(6), number(7)};
  const auto place = shardlight::comm::place_of(shardlight::Environment::of_process());
  if (!place) {
    std::fprintf(stderr, "%s\n", place.error().message().c_str());
    return 2;
  }
  at::set_num_threads(1);
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(static_cast<std::size_t>(place->rank.value() % sysconf(_SC_NPROCESSORS_ONLN)), &core);
  sched_setaffinity(0, sizeof core, &core);
  return run(argv[1], shape, place->rank.value(), argc > 8);
}
