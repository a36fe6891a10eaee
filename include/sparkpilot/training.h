// Trains the weights of a graph: gradients and AdamW, compiled once, over weights that lie in memory once.
//
//   Graph graph;
//   Builder b(graph);
//   const ValueId x = b.input("x", DType::f32, {256, 8}), wanted = b.input("wanted", DType::f32, {256, 1});
//   const ValueId w = b.constant(first_weights);
//   const ValueId error = b.add("Sub", {b.add("MatMul", {x, w}), wanted});
//   const ValueId loss = b.add("ReduceMean", {b.add("Mul", {error, error})}, {{"keepdims", int64_t{0}}});
//   Training training(std::move(graph), loss, {{w, "w"}}, {.threads = 2});
//   ... write training.input("x") and training.input("wanted") ...
//   training.step(1e-3);       // training.loss() is that of before the step
//   training.weights("w");     // a constant for the graph that is to run afterwards
//
// Ops have gradients as docs/ops.md says. Not thread-safe. The same calls give the same bits with one number of threads
// and one instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparkpilot/graph.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot {

// What is trained: an f32 constant of the graph.
struct TrainedWeights {
  ValueId value = {};
  std::string name = {};  // not empty, unique
  bool decay = true;      // whether they are decayed; not for biases
};

struct TrainingOptions {
  int threads = 0;                                      // 0: all processors of this process
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  // AdamW's: betas 0 to below 1, epsilon above 0
  float weight_decay = 0.01f;                           // 0 or more
  double clip = 1;                                      // a gradient of a greater norm is scaled down to it; 0: none is
};

class Training {
 public:
  // `loss` is a value of one element. The graph is one that Builder made with its newest opset; all shapes are fixed.
  // Fails (user) if it has states, if an op has no gradient, naming it, if the loss depends on no weights, if weights
  // are no f32 constant or have the name of others, and on options outside their ranges.
  Training(Graph graph, ValueId loss, std::vector<TrainedWeights> weights, TrainingOptions options = {});
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  // The memory of an f32 input, which the next step reads; it stays as it was written. Fails (user) if absent.
  std::span<float> input(std::string_view name);
  // One forward and backward pass and one update. Fails (user) if the gradient is not finite or `rate` is not 0 to 1e6;
  // the weights are then as they were.
  void step(double rate);
  double loss() const;    // of the last step, before its update
  int64_t steps() const;  // so far
  // As the last step left them; a copy. Fails (user) if absent.
  Tensor weights(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot
