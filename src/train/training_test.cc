#include "sparkpilot/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_error.h"
#include "passes/test_graph.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace {

using sparkpilot::testing::random_tensor;

constexpr int64_t kBatch = 64, kIn = 3, kHidden = 16;

// y = tanh(x w1 + b1) w2, and the mean of (y - wanted)^2.
struct Net {
  Graph graph;
  ValueId loss, y;
  std::vector<TrainedWeights> weights;
};
Net net(const Tensor& w1, const Tensor& b1, const Tensor& w2) {
  Net out;
  Builder b(out.graph);
  const ValueId x = b.input("x", DType::f32, {kBatch, kIn}), wanted = b.input("wanted", DType::f32, {kBatch, 1});
  out.weights = {{b.constant(w1), "w1"}, {b.constant(b1), "b1", false}, {b.constant(w2), "w2"}};
  const ValueId hidden =
      b.add("Tanh", {b.add("Add", {b.add("MatMul", {x, out.weights[0].value}), out.weights[1].value})});
  out.y = b.add("MatMul", {hidden, out.weights[2].value});
  const ValueId error = b.add("Sub", {out.y, wanted});
  out.loss = b.add("ReduceMean", {b.add("Mul", {error, error})}, {{"keepdims", int64_t{0}}});
  return out;
}
Net fresh() {
  return net(random_tensor({kIn, kHidden}, 1), Tensor::zeros(DType::f32, {kHidden}), random_tensor({kHidden, 1}, 2));
}

void give(Training& training, uint64_t seed) {
  const Tensor x = random_tensor({kBatch, kIn}, seed);
  const std::span<const float> values = x.data<float>();
  std::ranges::copy(values, training.input("x").begin());
  for (size_t i = 0; i < kBatch; ++i) {
    training.input("wanted")[i] = std::sin(values[3 * i]) + 0.5f * values[3 * i + 1] * values[3 * i + 2];
  }
}

TEST(Training, LearnsAFunctionAndGivesItsWeights) {
  const auto trained = [](int threads) {
    Net made = fresh();
    Training training(std::move(made.graph), made.loss, made.weights, {.threads = threads});
    give(training, 100);
    training.step(0);
    const double before = training.loss();
    for (uint64_t i = 0; i < 1500; ++i) {
      give(training, 100 + i);
      training.step(1e-2);
    }
    EXPECT_EQ(training.steps(), 1501);
    EXPECT_LT(training.loss(), 0.02 * before);
    return training;
  };
  const Training one = trained(1), again = trained(1);
  // The weights give the loss in a session, too.
  Net made = net(one.weights("w1"), one.weights("b1"), one.weights("w2"));
  Builder(made.graph).output(made.loss, "loss");
  Training next(made.graph, made.loss, made.weights, {.threads = 1});
  give(next, 7);
  Session session(made.graph, {.threads = 1});
  for (const char* name : {"x", "wanted"}) std::ranges::copy(next.input(name), session.input<float>(name).begin());
  session.run();
  next.step(0);
  EXPECT_NEAR(session.output<float>("loss")[0], next.loss(), 1e-6);
  EXPECT_LT(next.loss(), 0.05);
  for (const char* name : {"w1", "b1", "w2"}) {
    const Tensor a = one.weights(name), b = again.weights(name);
    EXPECT_TRUE(std::ranges::equal(a.data<float>(), b.data<float>())) << name << " differs from run to run";
  }
}

TEST(Training, RefusesOptionsAndRatesThatRuinWeights) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const TrainingOptions& options :
       {TrainingOptions{.beta1 = 1}, TrainingOptions{.beta1 = -0.1f}, TrainingOptions{.beta2 = kNan},
        TrainingOptions{.epsilon = 0}, TrainingOptions{.epsilon = kInfinity}, TrainingOptions{.weight_decay = kNan},
        TrainingOptions{.weight_decay = -1}, TrainingOptions{.clip = -1}}) {
    Net made = fresh();
    const std::string said = error_of([&] { Training(std::move(made.graph), made.loss, made.weights, options); });
    EXPECT_NE(said.find("expected"), std::string::npos) << said;
  }
  Net made = fresh();
  Training training(std::move(made.graph), made.loss, made.weights, {.threads = 1});
  give(training, 1);
  const Tensor before = training.weights("w1");
  for (const double rate : {-1.0, static_cast<double>(kNan), static_cast<double>(kInfinity), 1e300}) {
    EXPECT_NE(error_of([&] { training.step(rate); }).find("expected 0 to 1000000"), std::string::npos);
  }
  const Tensor after = training.weights("w1");
  EXPECT_TRUE(std::ranges::equal(before.data<float>(), after.data<float>()));
  EXPECT_EQ(training.steps(), 0);
}

TEST(Training, SaysWhatIsWrong) {
  const auto refusal = [](const std::function<void(Net&)>& change) {
    Net made = fresh();
    change(made);
    return error_of([&] { Training(std::move(made.graph), made.loss, made.weights, {.threads = 1}); });
  };
  EXPECT_EQ(refusal([](Net&) {}), "");
  EXPECT_EQ(refusal([](Net& n) { n.weights[1].value = n.y; }), "training: \"b1\" is no constant of the graph");
  EXPECT_NE(refusal([](Net& n) { n.weights[1].name = "w1"; }).find("w1"), std::string::npos);
  for (const ValueId id : {ValueId{}, ValueId{1000}}) {
    EXPECT_EQ(refusal([=](Net& n) { n.weights[1].value = id; }), "training: \"b1\" is no constant of the graph");
    EXPECT_EQ(refusal([=](Net& n) { n.loss = id; }), "training: the loss is no value of the graph");
  }
  EXPECT_EQ(refusal([](Net& n) { n.graph = Graph(); }), "training: the loss is no value of the graph");
  EXPECT_EQ(refusal([](Net& n) { n.weights[1].value = n.weights[0].value; }),
            "training: \"w1\" and \"b1\" are the same constant");
  EXPECT_NE(refusal([](Net& n) { n.weights.clear(); }), "");
  EXPECT_NE(refusal([](Net& n) { n.loss = n.y; }), "");
  EXPECT_EQ(refusal([](Net& n) {
              Builder b(n.graph);
              b.next(b.state(Tensor::zeros(DType::f32, {1}), "h"), b.constant(Tensor::zeros(DType::f32, {1})));
            }),
            "training: the graph keeps states, expected one that keeps none");
  Net made = fresh();
  Training training(std::move(made.graph), made.loss, made.weights, {.threads = 1});
  EXPECT_EQ(error_of([&] { training.input("z"); }), "training: no input \"z\" of f32");
  EXPECT_EQ(error_of([&] { training.weights("z"); }), "training: no weights \"z\"");
  give(training, 1);
  training.input("x")[5] = std::numeric_limits<float>::infinity();
  training.input("wanted")[5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor before = training.weights("w1");
  EXPECT_EQ(error_of([&] { training.step(1); }), "training: in step 1 the loss is not finite");
  const Tensor after = training.weights("w1");
  EXPECT_TRUE(std::ranges::equal(before.data<float>(), after.data<float>()));
  give(training, 1);
  training.step(1e-3);
  EXPECT_EQ(training.steps(), 1);
}

}  // namespace
}  // namespace sparkpilot
