#include "train/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "grad/differentiate.h"
#include "onnx/zoo.h"
#include "passes/pass.h"
#include "passes/rebatch.h"
#include "passes/test_graph.h"
#include "train/losses.h"
#include "train/parameters.h"

namespace sparkpilot::train {
namespace program_test {

using sparkpilot::testing::random_tensor;
using List = std::vector<double>;

constexpr int64_t kBatch = 3, kIn = 5, kHidden = 7, kOut = 2;

// y = relu(x w1 + b1) w2; the loss is the mean of (y - t)^2.
struct Net {
  Graph graph;
  ValueId loss, hidden, y;
  std::vector<Parameter> parameters;
};
Net net() {
  Net out;
  out.graph.opsets[""] = 26;
  Builder b(out.graph);
  const ValueId x = b.input("x", DType::f32, {kBatch, kIn}), t = b.input("t", DType::f32, {kBatch, kOut});
  const ValueId w1 = b.constant(random_tensor({kIn, kHidden}, 1)), b1 = b.constant(random_tensor({kHidden}, 2)),
                w2 = b.constant(random_tensor({kHidden, kOut}, 3));
  out.hidden = b.add("Relu", {b.add("Add", {b.add("MatMul", {x, w1}), b1})});
  out.y = b.add("MatMul", {out.hidden, w2});
  out.loss = mean_squared_error(b, out.y, t);
  out.parameters = {{w1, "w1"}, {b1, "b1", false}, {w2, "w2"}};
  return out;
}

TrainingProgram program_of(ProgramOptions options = {}) {
  Net made = net();
  if (options.session.threads == 0) options.session.threads = 1;
  return {std::move(made.graph), made.loss, std::move(made.parameters), {{"y", made.y}}, std::move(options)};
}

Tensor batch(const char* input, uint64_t seed) {
  return *input == 'x' ? random_tensor({kBatch, kIn}, 100 + seed) : random_tensor({kBatch, kOut}, 200 + seed);
}
void give(const View& to, const Tensor& from) { std::memcpy(to.data, from.raw(), static_cast<size_t>(from.bytes())); }
void run_gradients(TrainingProgram& program, uint64_t seed) {
  for (const char* input : {"x", "t"}) give(program.input(input), batch(input, seed));
  program.run_gradients();
}

// The same in double, by loops.
struct Reference {
  List w1, b1, w2, g1, gb, g2;
  double loss = 0;
  Reference() {
    const auto take = [](const Tensor& from) { return List(from.data<float>().begin(), from.data<float>().end()); };
    w1 = take(random_tensor({kIn, kHidden}, 1)), b1 = take(random_tensor({kHidden}, 2));
    w2 = take(random_tensor({kHidden, kOut}, 3));
    clear();
  }
  void clear() { g1.assign(w1.size(), 0), gb.assign(b1.size(), 0), g2.assign(w2.size(), 0); }
  void add_gradients(uint64_t seed) {
    const Tensor inputs = batch("x", seed), targets = batch("t", seed);
    const auto x = inputs.data<float>(), t = targets.data<float>();
    loss = 0;
    for (size_t n = 0; n < kBatch; ++n) {
      List before(b1), after(kHidden), back(kHidden);
      for (size_t h = 0; h < kHidden; ++h) {
        for (size_t i = 0; i < kIn; ++i) before[h] += x[n * kIn + i] * w1[i * kHidden + h];
        after[h] = std::max(before[h], 0.0);
      }
      for (size_t o = 0; o < kOut; ++o) {
        double e = -static_cast<double>(t[n * kOut + o]);
        for (size_t h = 0; h < kHidden; ++h) e += after[h] * w2[h * kOut + o];
        loss += e * e / (kBatch * kOut);
        const double slope = 2 * e / (kBatch * kOut);
        for (size_t h = 0; h < kHidden; ++h) {
          g2[h * kOut + o] += slope * after[h];
          back[h] += slope * w2[h * kOut + o];
        }
      }
      for (size_t h = 0; h < kHidden; ++h) {
        if (before[h] <= 0) continue;
        gb[h] += back[h];
        for (size_t i = 0; i < kIn; ++i) g1[i * kHidden + h] += back[h] * x[n * kIn + i];
      }
    }
  }
  std::vector<std::tuple<const char*, List*, List*, bool>> all() {
    return {{"w1", &w1, &g1, true}, {"b1", &b1, &gb, false}, {"w2", &w2, &g2, true}};
  }
  double norm(int micro_batches) {
    double sum = 0;
    for (const auto& [name, x, g, decay] : all()) {
      for (const double each : *g) sum += each * each;
    }
    return std::sqrt(sum) / micro_batches;
  }
};

void expect_near(const Tensor& got, const List& expected, double tolerance) {
  ASSERT_EQ(got.elements(), std::ssize(expected));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got.data<float>()[i], expected[i], tolerance) << i;
}

class Programs : public ::testing::TestWithParam<std::pair<Optimizer, int>> {};

TEST_P(Programs, UpdateAsLoopsInDoubleDo) {
  const auto [optimizer, micro_batches] = GetParam();
  constexpr double kRate = 0.02, kDecay = 0.1, kEma = 0.75, kClip = 0.5, kMomentum = 0.8;
  TrainingProgram program = program_of({.optimizer = optimizer,
                                        .momentum = kMomentum,
                                        .weight_decay = kDecay,
                                        .ema = kEma,
                                        .micro_batches = micro_batches});
  Reference reference;
  std::map<std::string, List> m, v, averages;
  for (const auto& [name, x, g, decay] : reference.all()) {
    m[name].resize(x->size());
    v[name].resize(x->size());
    averages[name] = *x;
  }
  bool clipped = false, whole = false;
  for (int step = 1; step <= 6; ++step) {
    reference.clear();
    // The last update has fewer micro-batches, as the last of an epoch may.
    const int count = step == 6 ? (micro_batches + 1) / 2 : micro_batches;
    for (int i = 0; i < count; ++i) {
      const uint64_t seed = 10 * static_cast<uint64_t>(step) + static_cast<uint64_t>(i);
      run_gradients(program, seed);
      reference.add_gradients(seed);
      EXPECT_NEAR(program.loss(), reference.loss, 1e-5 * reference.loss);
    }
    const double norm = reference.norm(count);
    EXPECT_NEAR(program.gradient_norm(), norm, 1e-5 * norm);
    const double clip = step % 2 == 0 ? 0 : kClip;
    const double scale = (clip > 0 && norm > clip ? clip / norm : 1) / count;
    (clip > 0 && norm > clip ? clipped : whole) = true;
    program.update(kRate, clip);
    EXPECT_EQ(program.updates(), step);
    EXPECT_EQ(program.micro_batches(), 0);
    for (const auto& [name, x, sums, decay] : reference.all()) {
      for (size_t i = 0; i < x->size(); ++i) {
        double& at = (*x)[i];
        const double g = scale * (*sums)[i];
        if (optimizer == Optimizer::sgd) {
          m[name][i] = kMomentum * m[name][i] + g + (decay ? kDecay * at : 0);
          at -= kRate * m[name][i];
        } else {
          m[name][i] = 0.9 * m[name][i] + 0.1 * g;
          v[name][i] = 0.999 * v[name][i] + 0.001 * g * g;
          const double mean = m[name][i] / (1 - std::pow(0.9, step)), square = v[name][i] / (1 - std::pow(0.999, step));
          at = at * (decay ? 1 - kRate * kDecay : 1) - kRate * mean / (std::sqrt(square) + 1e-8);
        }
        averages[name][i] = kEma * averages[name][i] + (1 - kEma) * at;
      }
      SCOPED_TRACE(name);
      expect_near(program.state(name), *x, 3e-5);
      expect_near(program.state(std::string(name) + "/ema"), averages[name], 3e-5);
    }
  }
  EXPECT_TRUE(clipped && whole);
  // The evaluation sees what training made; the one of the averages their values.
  reference.add_gradients(77);
  for (const char* input : {"x", "t"}) give(program.evaluation_input(input), batch(input, 77));
  program.run_evaluation();
  EXPECT_NEAR(program.evaluation_loss(), reference.loss, 1e-4 * reference.loss);
  EXPECT_EQ(program.evaluation_report(0).shape, (Shape{kBatch, kOut}));
  for (const auto& [name, x, g, decay] : reference.all()) *x = averages[name];
  reference.add_gradients(77);
  for (const char* input : {"x", "t"}) give(program.evaluation_input(input, true), batch(input, 77));
  program.run_evaluation(true);
  EXPECT_NEAR(program.evaluation_loss(true), reference.loss, 1e-4 * reference.loss);
  EXPECT_NE(program.evaluation_loss(true), program.evaluation_loss());
}

INSTANTIATE_TEST_SUITE_P(All, Programs,
                         ::testing::Values(std::pair(Optimizer::adamw, 1), std::pair(Optimizer::adamw, 3),
                                           std::pair(Optimizer::sgd, 1), std::pair(Optimizer::sgd, 2)),
                         [](const auto& each) {
                           return fmt::format("{}_{}", each.param.first == Optimizer::adamw ? "adamw" : "sgd",
                                              each.param.second);
                         });

TEST(Program, SumsLieSideBySide) {
  TrainingProgram program = program_of();
  Reference reference;
  run_gradients(program, 4);
  reference.add_gradients(4);
  const std::span<float> sums = program.gradient_sums();
  ASSERT_EQ(sums.size(), 48 + 16 + 16);  // 35, 7 and 14, in pieces of 64 bytes
  size_t at = 0;
  for (const auto& [name, x, g, decay] : reference.all()) {
    for (size_t i = 0; i < g->size(); ++i) EXPECT_NEAR(sums[at + i], (*g)[i], 1e-5);
    for (size_t i = g->size(); (at + i) % 16 != 0; ++i) EXPECT_EQ(sums[at + i], 0);
    at += (g->size() + 15) / 16 * 16;
  }
  // What an exchange writes there is what the norm is of, and what the update takes.
  const float before = program.state("b1").data<float>()[0];
  EXPECT_GT(program.gradient_norm(), 0);
  for (float& each : program.gradient_sums()) each = 0;
  EXPECT_EQ(program.gradient_norm(), 0);
  program.update(0.1);
  EXPECT_EQ(program.state("b1").data<float>()[0], before);
}

TEST(Program, StopsBeforeWhatIsNotFinite) {
  TrainingProgram program = program_of({.micro_batches = 2});
  run_gradients(program, 1);
  give(program.input("x"), batch("x", 2));
  program.input("x").as<float>()[3] = std::nanf("");
  program.run_gradients();
  EXPECT_TRUE(std::isnan(program.loss()));
  EXPECT_FALSE(std::isfinite(program.gradient_norm()));
  EXPECT_THROW(program.update(0.1), Error);
  EXPECT_EQ(program.updates(), 0);
  EXPECT_EQ(program.state("w2").data<float>()[0], random_tensor({kHidden, kOut}, 3).data<float>()[0]);
  program.discard();
  run_gradients(program, 1);
  EXPECT_TRUE(std::isfinite(program.gradient_norm()));
  program.update(0.1);
  EXPECT_EQ(program.updates(), 1);
  EXPECT_THROW(program.gradient_norm(), Error);
}

// A state that the update computes from the parameters: the norms of w2's columns, by which y is divided.
TEST(Program, RenewsWhatIsComputedFromParameters) {
  Net made = net();
  Builder b(made.graph);
  const auto norms = [](Builder& to, ValueId w) {
    return to.add("ReduceL2", {w, to.ints({0})}, {{"keepdims", int64_t{0}}});
  };
  const ValueId norm = b.state(Tensor::of<float>({kOut}, {1, 1}), "norm");
  b.next(norm, norm);
  const ValueId y = b.add("Div", {made.y, norm});
  made.loss = mean_squared_error(b, y, made.graph.find_input("t"));
  TrainingProgram program(
      std::move(made.graph), made.loss, std::move(made.parameters), {{"y", y}},
      {.ema = 0.5,
       .extra_updates = [&](ExtraUpdates& extra) { extra.renew("norm", norms(extra.b, extra.updated("w2"))); },
       .session = {.threads = 1}});
  const auto column = [&](const char* state, size_t at) {
    double sum = 0;
    for (size_t h = 0; h < kHidden; ++h) sum += std::pow(program.state(state).data<float>()[h * kOut + at], 2);
    return std::sqrt(sum);
  };
  for (uint64_t step = 0; step < 2; ++step) {
    run_gradients(program, step);
    program.update(0.1);
    for (size_t i = 0; i < kOut; ++i) {
      EXPECT_NEAR(program.state("norm").data<float>()[i], column("w2", i), 1e-5);
      EXPECT_NEAR(program.state("norm/ema").data<float>()[i], column("w2/ema", i), 1e-5);
    }
  }
  for (const char* input : {"x", "t"}) {
    give(program.evaluation_input(input), batch(input, 5));
    give(program.evaluation_input(input, true), batch(input, 5));
  }
  program.run_evaluation();
  program.run_evaluation(true);
  // y norm of the averages, with the averages' w2 and hidden layer, is not that of the parameters.
  EXPECT_NE(program.evaluation_report(0).as<float>()[0], program.evaluation_report(0, true).as<float>()[0]);
  const float before = program.evaluation_report(0, true).as<float>()[0];
  program.state("norm/ema").data<float>()[0] *= 2;
  program.run_evaluation(true);
  EXPECT_NEAR(program.evaluation_report(0, true).as<float>()[0], before / 2, 1e-6);
}

TEST(Program, EvaluatesAPartAlone) {
  Net made = net();
  TrainingProgram program(std::move(made.graph), made.loss, std::move(made.parameters),
                          {{"y", made.y}, {"hidden", made.hidden}},
                          {.ema = 0.5, .parts = {{"hidden", made.hidden}}, .session = {.threads = 1}});
  run_gradients(program, 1);
  program.update(0.1);
  std::vector<float> seen;
  for (const bool average : {false, true}) {
    const Evaluation part(average, 0);
    for (const char* input : {"x", "t"}) give(program.evaluation_input(input, average), batch(input, 5));
    give(program.evaluation_input("x", part), batch("x", 5));
    program.run_evaluation(average);
    program.run_evaluation(part);
    const ConstView whole = program.evaluation_report(1, average), alone = program.evaluation_part(part);
    EXPECT_EQ(alone.shape, (Shape{kBatch, kHidden}));
    for (int64_t i = 0; i < kBatch * kHidden; ++i) EXPECT_NEAR(alone.as<float>()[i], whole.as<float>()[i], 1e-6) << i;
    seen.push_back(*std::max_element(alone.as<float>(), alone.as<float>() + kBatch * kHidden));
  }
  EXPECT_NE(seen[0], seen[1]);  // the parameters' and their averages'
  const auto choices = program.choices();
  EXPECT_LT(choices.at("evaluate/hidden").size(), choices.at("evaluate").size());
  EXPECT_EQ(choices.at("evaluate/hidden_average").size(), choices.at("evaluate/hidden").size());
}

TEST(Program, RefusesByName) {
  const auto message = [](auto&& change, ProgramOptions options = {}) {
    Net made = net();
    change(made);
    try {
      TrainingProgram program(std::move(made.graph), made.loss, std::move(made.parameters), {}, std::move(options));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(message([](Net& n) { n.parameters.clear(); }), "there is no parameter to train");
  EXPECT_EQ(message([](Net& n) { n.parameters[1].name = "w1"; }), "two parameters or states have the name \"w1\"");
  EXPECT_EQ(message([](Net& n) { n.parameters[1].name = "w1/m"; }),
            "two states of the training have the name \"w1/m\"");
  EXPECT_EQ(message([](Net& n) { n.parameters[0].value = n.y; }), "parameter \"w1\" is neither a constant nor a state");
  EXPECT_EQ(message([](Net& n) {
              n.parameters = {{n.graph.add_constant(random_tensor({2}, 1, DType::f64)), "d"}};
            }),
            "parameter \"d\" is f64, expected f32");
  EXPECT_EQ(message([](Net& n) {
              n.parameters = {{n.graph.add_constant(random_tensor({2}, 1)), "unused"}};
            }),
            "the loss depends on no parameter");
  EXPECT_EQ(message([](Net& n) { n.loss = n.y; }), "the loss has the shape [3,2], gradients need one element");
  EXPECT_EQ(message([](Net&) {}, {.session = {.passes = {.precision = Precision::fp16}}}),
            "training computes in fp32 or bf16: gradients in fp16 vanish unless the loss is scaled");
  EXPECT_EQ(message([](Net&) {}, {.session = {.device = "auto"}}),
            "training runs on cpu, cuda or cuda:N, not on \"auto\"");
}

TEST(Program, TakesTheKernelsOfAnEarlierOne) {
  std::map<std::string, std::vector<KernelDecision>> choices = program_of().choices();
  ASSERT_FALSE(choices.at("gradients").empty());
  KernelDecision& first = choices.at("gradients").front();
  ASSERT_NE(first.kernel, "reference");
  first.kernel = "reference";
  TrainingProgram program = program_of({.choices = choices});
  const std::vector<KernelDecision> now = program.choices().at("gradients");
  EXPECT_EQ(now.front().node, first.node);
  EXPECT_EQ(now.front().kernel, "reference");
  EXPECT_EQ(now.front().by, ChosenBy::restored);
  EXPECT_EQ(program.choices().at("update").size(), choices.at("update").size());
  EXPECT_FALSE(program.choices().contains("evaluate"));
  program.run_evaluation();
  EXPECT_FALSE(program.choices().at("evaluate").empty());
}

// The gradient of a weight that many rows share is one product over all rows.
TEST(Program, HasNoProductForEachEntryOfTheBatch) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {8, 5, 6}), w = b.constant(random_tensor({6, 7}, 1));
  const ValueId y = b.add("MatMul", {x, w});
  const ValueId loss = b.add("ReduceSum", {b.add("Mul", {y, y})}, {{"keepdims", int64_t{0}}});
  const std::vector<ValueId> gradients = differentiate(graph, loss, std::vector{w, x});
  EXPECT_EQ(*graph.value(gradients[0]).shape, (Shape{6, 7}));
  EXPECT_EQ(*graph.value(gradients[1]).shape, (Shape{8, 5, 6}));
  for (int i = 0; i < graph.value_count(); ++i) {
    EXPECT_LE(graph.value(ValueId{i}).shape.value_or(Shape{}).elements(), 8 * 5 * 7);
  }
}

// The fewest bytes of activations that a program can have; `make` takes ProgramOptions::max_activations.
template <typename Make>
int64_t least_activations(const Make& make) {
  try {
    make(1);
  } catch (const TooFewBytes& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("take at least {} bytes", error.least())), std::string::npos);
    return error.least();
  }
  ADD_FAILURE() << "one byte is enough";
  return 0;
}

// Values computed again are the same to the last bit: the results of a dropout with its random mask, with more than one
// micro-batch, too.
class Budgets : public ::testing::TestWithParam<int> {};

TEST_P(Budgets, ChangeNoBit) {
  constexpr int64_t kRows = 64, kWidth = 48, kLayers = 12;
  const auto make = [&](int64_t max_activations) {
    Graph graph;
    graph.opsets[""] = 26;
    Builder b(graph);
    ValueId x = b.input("x", DType::f32, {kRows, kWidth});
    const ValueId t = b.input("t", DType::f32, {kRows, kWidth});
    for (int i = 0; i < kLayers; ++i) {
      const ValueId w = b.constant(random_tensor({kWidth, kWidth}, static_cast<uint64_t>(i), DType::f32, 0.2));
      x = b.add("Tanh", {b.add("MatMul", {x, w})});
      const ValueId counter = b.state(Tensor::scalar(uint64_t{0}), fmt::format("counter{}", i));
      b.next(counter, b.add("Add", {counter, b.constant(Tensor::scalar(uint64_t{kRows * kWidth}))}));
      const ValueId drawn =
          b.add("sparkpilot::RandomUniform", {b.constant(Tensor::scalar(static_cast<uint64_t>(i))), counter},
                {{"shape", std::vector<int64_t>{kRows, kWidth}}});
      const ValueId dropped = b.add("Less", {drawn, b.scalar(DType::f32, 0.25)});
      x = b.add("Where", {dropped, b.scalar(DType::f32, 0), b.add("Mul", {x, b.scalar(DType::f32, 4.0 / 3)})});
    }
    b.output(mean_squared_error(b, x, t), "loss");
    b.output(x, "x");
    prepare(graph, {.precision = Precision::fp32});
    std::vector<Parameter> parameters = all_weights(graph);
    EXPECT_EQ(std::ssize(parameters), kLayers);
    const ValueId loss = graph.outputs()[0].value, y = graph.outputs()[1].value;
    return TrainingProgram(
        std::move(graph), loss, std::move(parameters), {{"x", y}},
        {.micro_batches = GetParam(), .max_activations = max_activations, .session = {.threads = 1}});
  };
  const int64_t least = least_activations(make);
  TrainingProgram whole = make(0);
  const int64_t most = whole.activations().bytes;
  EXPECT_EQ(whole.activations().nodes_again, 0);
  ASSERT_LT(least, 0.7 * static_cast<double>(most));
  const auto same = [](const void* a, const void* b, int64_t bytes) {
    return std::memcmp(a, b, static_cast<size_t>(bytes)) == 0;
  };
  TrainingProgram smallest = make(least), between = make((least + most) / 2);
  EXPECT_LE(smallest.activations().bytes, least);
  EXPECT_LE(between.activations().bytes, (least + most) / 2);
  EXPECT_GT(between.activations().nodes_again, 0);
  EXPECT_GT(smallest.activations().nodes_again, between.activations().nodes_again);
  double before = 0;
  for (uint64_t step = 0; step < 3; ++step) {
    for (TrainingProgram* program : {&whole, &smallest, &between}) {
      for (int i = 0; i < GetParam(); ++i) {
        give(program->input("x"), random_tensor({kRows, kWidth}, 10 * step + static_cast<uint64_t>(i)));
        give(program->input("t"), random_tensor({kRows, kWidth}, 99));
        program->run_gradients();
      }
      const std::span<const float> sums = program->gradient_sums(), expected = whole.gradient_sums();
      EXPECT_TRUE(same(sums.data(), expected.data(), std::ssize(sums) * 4)) << step;
      EXPECT_TRUE(same(program->report(0).data, whole.report(0).data, program->report(0).bytes())) << step;
      EXPECT_EQ(program->loss(), whole.loss());
    }
    EXPECT_NE(whole.loss(), before);  // other inputs, other masks
    before = whole.loss();
    for (TrainingProgram* program : {&whole, &smallest, &between}) program->update(0.01);
  }
  for (const std::string& name : whole.states()) {
    EXPECT_TRUE(same(whole.state(name).raw(), smallest.state(name).raw(), whole.state(name).bytes())) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Micro, Budgets, ::testing::Values(1, 2));

// All weights of a network's products: a few updates on one batch lower its loss, twice to the same bits, and with
// states of the first written into a fresh program it goes on to the same bits, with the fewest activations, too.
class Networks : public ::testing::TestWithParam<const char*> {};

TEST_P(Networks, LearnOneBatchRepeatably) {
  constexpr int64_t kEntries = 4;
  const int threads = std::string_view(GetParam()) == "tiny_driving_policy" ? 2 : 1;
  const auto make = [threads](int64_t max_activations) {
    Graph graph = rebatch(build_zoo_model(GetParam(), 1), kEntries, {.precision = Precision::fp32});
    // Not composed: norms and L2 normalisation have gradients by their parts.
    prepare(graph, {.off = {"recognise"}, .precision = Precision::fp32});
    Builder b(graph);
    const ValueId out = graph.outputs()[0].value;
    const ValueId target = b.input("target", b.dtype(out), b.shape(out));
    const ValueId loss = mean_squared_error(b, out, target);
    std::vector<Parameter> parameters = all_weights(graph);
    EXPECT_GT(parameters.size(), 10);
    return TrainingProgram(std::move(graph), loss, std::move(parameters), {},
                           {.max_activations = max_activations, .session = {.threads = threads}});
  };
  const auto fill = [](TrainingProgram& program) {
    Random random(3);
    const std::vector<TensorInfo> inputs = program.inputs();
    for (const TensorInfo& info : inputs) {
      const View view = program.input(info.name);
      for (int64_t i = 0; i < view.elements(); ++i) {
        store_element(view.dtype, view.data, i,
                      is_float(view.dtype) ? 0.3 * random.normal() : static_cast<double>(random.integer(0, 255)));
      }
    }
  };
  const auto step = [](TrainingProgram& program) {
    program.run_gradients();
    const double loss = program.loss();
    EXPECT_TRUE(std::isfinite(program.gradient_norm()));
    program.update(1e-3, 1);
    return loss;
  };
  TrainingProgram one = make(0), other = make(0);
  fill(one);
  fill(other);
  const double first = step(one);
  double last = 0;
  for (int i = 0; i < 9; ++i) last = step(one);
  EXPECT_LT(last, 0.7 * first);
  for (int i = 0; i < 4; ++i) step(other);
  TrainingProgram third = make(least_activations(make));
  EXPECT_LT(third.activations().bytes, one.activations().bytes);
  EXPECT_GT(third.activations().nodes_again, 0);
  fill(third);
  for (const std::string& name : third.states()) {
    const Tensor& from = other.state(name);
    std::memcpy(third.state(name).raw(), from.raw(), static_cast<size_t>(from.bytes()));
  }
  for (int i = 0; i < 6; ++i) {
    step(other);
    step(third);
  }
  EXPECT_EQ(third.updates(), 10);
  for (const std::string& name : one.states()) {
    const auto size = static_cast<size_t>(one.state(name).bytes());
    EXPECT_EQ(std::memcmp(one.state(name).raw(), other.state(name).raw(), size), 0) << name;
    EXPECT_EQ(std::memcmp(one.state(name).raw(), third.state(name).raw(), size), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Networks,
                         ::testing::Values("tiny_driving_policy", "tiny_driving_vision", "tiny_driving_supercombo"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace program_test
}  // namespace sparkpilot::train
