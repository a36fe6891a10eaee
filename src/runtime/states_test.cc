// States that hold parameters: updated in place, shared by sessions, in memory once.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "passes/test_graph.h"
#include "runtime/session.h"
#include "tensor/tensor.h"

namespace sparkpilot {
namespace {

using testing::random_tensor;
using List = std::vector<ValueId>;

// One step of AdamW on tensors of the given shapes: parameters x0, x1, ..., their moments m and v, the count t;
// gradients g0, g1, ... are inputs. It has no outputs.
Graph update_program(const std::vector<Shape>& shapes, float rate = 0.1f) {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g, "update");
  const ValueId count = g.add_state(Tensor::of<int64_t>(Shape{}, {0}), "t");
  const ValueId next = b.add("Add", {count, b.constant(Tensor::scalar<int64_t>(1))});
  g.set_next(count, next);
  List inputs{b.constant(Tensor::scalar(rate)), next, b.constant(Tensor::scalar(1.0f))}, states;
  for (const char* group : {"x", "g", "m", "v"}) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::string name = fmt::format("{}{}", group, i);
      if (*group == 'g') {
        inputs.push_back(g.add_input(name, DType::f32, shapes[i]));
        continue;
      }
      Tensor initial = *group == 'x' ? random_tensor(shapes[i], 40 + i) : Tensor::zeros(DType::f32, shapes[i]);
      inputs.push_back(g.add_state(std::move(initial), name, false));
      states.push_back(inputs.back());
    }
  }
  const std::vector<ValueId> updated = b.add_many("sparkpilot::AdamW", inputs, {}, static_cast<int>(3 * shapes.size()));
  for (size_t i = 0; i < states.size(); ++i) g.set_next(states[i], updated[i]);
  return g;
}

TEST(States, AnUpdateWithoutOutputsIsRunAndWritesWhereTheParametersLie) {
  const std::vector<Shape> shapes{{7, 9}, {5}};
  for (const int threads : {1, 2}) {
    Session session(update_program(shapes), {.threads = threads});
    std::vector<double> x, m(63), v(63);
    const Tensor initial = random_tensor(shapes[0], 40);
    for (const float value : initial.data<float>()) x.push_back(value);
    const void* before = session.state("x0").data;
    for (int step = 1; step <= 4; ++step) {
      const Tensor gradient = random_tensor(shapes[0], 70 + static_cast<uint64_t>(step));
      session.set_input("g0", gradient.view());
      session.set_input("g1", random_tensor(shapes[1], 5).view());
      session.run();
      for (size_t i = 0; i < x.size(); ++i) {
        const double g = gradient.data<float>()[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        const double mean = m[i] / (1 - std::pow(0.9, step)), square = v[i] / (1 - std::pow(0.999, step));
        x[i] = (1 - 0.1 * 0.01) * x[i] - 0.1 * mean / (std::sqrt(square) + 1e-8);
      }
    }
    EXPECT_EQ(session.state("x0").data, before);
    EXPECT_EQ(*session.state("t").as<int64_t>(), 4);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(session.state("x0").as<float>()[i], x[i], 2e-5) << i;
    EXPECT_LT(session.arena_bytes(), 1024);  // no copy of the parameters
  }
}

TEST(States, WhatIsReadAfterTheUpdateKeepsTheOldValue) {
  // n becomes n + 1; the output still sees the n of this run, computed late.
  Graph g;
  g.opsets[""] = 26;
  Builder b(g, "");
  const ValueId n = g.add_state(Tensor::of<float>(Shape{3}, {1, 2, 3}), "n");
  const ValueId next = b.add("Add", {n, b.constant(Tensor::scalar(1.f))});
  g.set_next(n, next);
  g.add_output(b.add("Mul", {b.add("Relu", {next}), n}), "y");
  Session session(std::move(g), {.passes = {.off = {"all"}}});
  for (float at = 1; at < 4; ++at) {
    session.run();
    EXPECT_EQ(session.output<float>("y")[0], (at + 1) * at);
    EXPECT_EQ(session.state("n").as<float>()[0], at + 1);
  }
}

TEST(States, AnOutputThatIsAlsoTheNextValueStays) {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g, "");
  const ValueId n = g.add_state(Tensor::of<float>(Shape{2}, {1, 2}), "n");
  const ValueId next = b.add("Mul", {n, b.constant(Tensor::scalar(2.f))});
  g.set_next(n, next);
  g.add_output(next, "y");
  Session session(std::move(g));
  session.run();
  EXPECT_EQ(session.output<float>("y")[1], 4);
  session.state("n").as<float>()[1] = 100;  // the user may write it until the next run
  EXPECT_EQ(session.output<float>("y")[1], 4);
  session.run();
  EXPECT_EQ(session.output<float>("y")[1], 200);
  session.reset_states();
  session.run();
  EXPECT_EQ(session.output<float>("y")[1], 4);
}

Graph reader(const Shape& shape, DType dtype = DType::f32) {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g, "");
  const ValueId x = g.add_state(Tensor::zeros(dtype, shape), "x0");
  g.set_next(x, x);
  g.add_output(b.add("Neg", {x}), "y");
  return g;
}

TEST(States, SessionsWithOneStoreShareThem) {
  const auto store = std::make_shared<StateStore>();
  Session update(update_program({Shape{4}}), {.threads = 1, .states = store});
  Session forward(reader({4}), {.threads = 1, .states = store});
  EXPECT_EQ(update.state("x0").data, forward.state("x0").data);
  const float before = random_tensor({4}, 40).data<float>()[2];
  forward.run();
  EXPECT_EQ(forward.output<float>("y")[2], -before);
  update.set_input("g0", random_tensor({4}, 3).view());
  update.run();
  forward.run();
  EXPECT_NE(forward.output<float>("y")[2], -before);
  EXPECT_EQ(forward.output<float>("y")[2], -update.state("x0").as<float>()[2]);

  const auto refused = [&](Graph graph) {
    try {
      Session session(std::move(graph), {.threads = 1, .states = store});
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("state \"x0\""), std::string::npos) << error.what();
    }
  };
  refused(reader({5}));
  refused(reader({4}, DType::f64));
}

TEST(States, ParametersAreNeitherResetNorTriedOn) {
  // The session chooses the number of threads; for other graphs it does so by trial runs.
  Session session(update_program({Shape{64}}));
  EXPECT_EQ(*session.state("t").as<int64_t>(), 0);
  EXPECT_EQ(session.state("x0").as<float>()[0], random_tensor({64}, 40).data<float>()[0]);
  session.run();
  EXPECT_EQ(*session.state("t").as<int64_t>(), 1);
  try {
    session.reset_states();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("state \"x0\" cannot be reset"), std::string::npos) << error.what();
  }
  EXPECT_EQ(*session.state("t").as<int64_t>(), 1);
}

}  // namespace
}  // namespace sparkpilot
