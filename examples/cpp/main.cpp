// A module as torch users write it, trained at ZeRO stage 3 by as many ranks as are started:
// shardlight launch -n 2 -- train
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cstdio>

#include "shardlight/engine/engine.h"

struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(2, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 1));
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

int main() {
  torch::manual_seed(1);  // the same first weights on all ranks
  auto model = std::make_shared<Net>();
  shardlight::Engine engine(model, shardlight::AdamW{.lr = 1e-2}, {.stage = 3});
  torch::manual_seed(100 + engine.rank().value());  // and a batch of its own for each
  for (int step = 1; step <= 300; ++step) {
    const auto x = torch::rand({64, 2});
    const auto loss = torch::mse_loss(model->forward(x), x.prod(1, true));
    engine.backward(loss);
    engine.step();
    if (engine.rank().value() == 0 && step % 100 == 0) {
      std::printf("step %d loss %.2g\n", step, loss.item<double>());
    }
  }
}
