// What the engine's look at every operator costs, where operators do next to nothing: microseconds
// an operator without an engine in the process and with one; the medians of rounds.
//
//   touch_bench
//
// Prints a JSON line for operators on plain tensors, and for each number of parameters, one a unit
// or 64 a unit, for operators that use one of them each: forward alone, and a whole step (forward,
// backward, AdamW) a parameter.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "shardlight/engine/engine.h"

namespace {

using shardlight::Bytes;
using shardlight::engine::AdamW;
using shardlight::engine::Engine;
using shardlight::engine::Options;

constexpr int kRounds = 15;
constexpr std::int64_t kElements = 64;  // of a parameter

double microseconds(const std::function<void()>& what) {
  const auto began = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
      .count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::unique_ptr<Engine> make_engine(const Engine::NamedTensors& parameters, Bytes unit_bytes) {
  Options options{.stage = 3};
  options.unit_bytes = unit_bytes;
  options.ranks = shardlight::engine::ranks_as_threads(1).front();
  return std::make_unique<Engine>(parameters, Engine::NamedTensors(), AdamW(), options);
}

void plain_operators() {
  constexpr int kOperators = 20'000;
  const c10::NoGradGuard no_grad;
  const at::Tensor x = at::ones({kElements});
  const at::Tensor y = at::ones({kElements});
  const auto run = [&] {
    for (int i = 0; i < kOperators; ++i) x.add_(y);
  };
  std::vector<double> without, with;
  for (int round = 0; round < kRounds; ++round) {
    without.push_back(microseconds(run) / kOperators);
    const auto engine = make_engine({{"p", at::ones({kElements}).requires_grad_()}}, Bytes(0));
    with.push_back(microseconds(run) / kOperators);
  }
  std::printf("{\"what\": \"plain operator\", \"without_us\": %.3f, \"with_us\": %.3f}\n",
              median(without), median(with));
}

void parameters(int count, int to_a_unit) {
  Engine::NamedTensors managed, plain;
  for (int i = 0; i < count; ++i) {
    managed.emplace_back("p" + std::to_string(i), at::ones({kElements}).requires_grad_());
    plain.emplace_back("p" + std::to_string(i), at::ones({kElements}).requires_grad_());
  }
  const auto forward = [](const Engine::NamedTensors& model) {
    at::Tensor x = at::ones({kElements});
    for (const auto& [name, parameter] : model) x = x + parameter;
    return x.sum();
  };
  std::vector<double> without, with, steps;
  for (int round = 0; round < kRounds; ++round) {
    const c10::NoGradGuard no_grad;
    without.push_back(microseconds([&] { forward(plain); }) / count);
  }
  const auto engine = make_engine(managed, Bytes(4 * kElements * to_a_unit));
  const auto step = [&] {
    engine->backward(forward(managed));
    engine->step();
  };
  step();
  step();
  for (int round = 0; round < kRounds; ++round) {
    const c10::NoGradGuard no_grad;
    with.push_back(microseconds([&] { forward(managed); }) / count);
    const at::AutoGradMode grad(true);
    steps.push_back(microseconds(step) / count);
  }
  std::printf(
      "{\"what\": \"parameter\", \"parameters\": %d, \"units\": %d, \"without_us\": %.3f, "
      "\"with_us\": %.3f, \"step_us\": %.3f}\n",
      count, count / to_a_unit, median(without), median(with), median(steps));
}

}  // namespace

int main() {
  at::set_num_threads(1);
  plain_operators();
  for (const int count : {10, 100, 1000}) parameters(count, 1);
  for (const int count : {64, 640, 9984}) parameters(count, 64);
  return 0;
}
