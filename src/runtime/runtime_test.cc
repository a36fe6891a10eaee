#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ops/check.h"
#include "passes/precision.h"
#include "runtime/arena.h"
#include "runtime/plan.h"
#include "runtime/roofline.h"
#include "runtime/run_value.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Random random(seed);
  Tensor out(DType::f32, shape);
  for (float& x : out.data<float>()) x = static_cast<float>(random.normal());
  return out;
}

std::vector<Tensor> run_session(Session& session, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) session.set_input(session.inputs()[i].name, inputs[i].view());
  session.run();
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : session.outputs()) {
    const ConstView view = session.output(info.name);
    Tensor copy(view.dtype, view.shape);
    std::memcpy(copy.raw(), view.data, static_cast<size_t>(view.bytes()));
    outputs.push_back(copy);
  }
  return outputs;
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), expected[i].dtype()) << i;
    ASSERT_EQ(got[i].shape(), expected[i].shape()) << i;
    for (int64_t k = 0; k < got[i].elements(); ++k) {
      const double a = load_element(got[i].dtype(), got[i].raw(), k),
                   b = load_element(got[i].dtype(), expected[i].raw(), k);
      ASSERT_NEAR(a, b, 1e-5 * (1 + std::fabs(b))) << "output " << i << " element " << k;
    }
  }
}

TEST(Arena, NeverOverlapsAndStaysSmall) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    std::vector<Lifetime> buffers(40);
    int64_t sum = 0;
    for (Lifetime& b : buffers) {
      b = {random.integer(0, 5000), static_cast<int>(random.integer(0, 60)), 0};
      b.last = b.first + static_cast<int>(random.integer(0, 6));
      sum += b.bytes + 63;
    }
    const int64_t total = place(buffers);
    EXPECT_LE(total, sum);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Lifetime& a = buffers[i];
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, total);
      for (size_t j = 0; j < i; ++j) {
        const Lifetime& b = buffers[j];
        if (a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j;
      }
    }
  }
}

// So many buffers that they are placed in the order of their steps: chains, and some with long lifetimes.
TEST(Arena, ManyNeverOverlapAndStayNearTheLargestLiveSet) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Random random(seed);
    std::vector<Lifetime> buffers(kMaxBySize + 500);
    std::vector<int64_t> live(buffers.size() + 400);
    for (size_t i = 0; i < buffers.size(); ++i) {
      Lifetime& b = buffers[i];
      b.bytes = 64 * random.integer(0, 100);
      b.first = static_cast<int>(i);
      b.last = b.first + static_cast<int>(random.integer(0, 9) ? random.integer(0, 3) : random.integer(0, 399));
      for (int step = b.first; step <= b.last; ++step) live[static_cast<size_t>(step)] += b.bytes;
    }
    const int64_t total = place(buffers), least = *std::max_element(live.begin(), live.end());
    EXPECT_GE(total, least);
    EXPECT_LE(total, least * 3 / 2);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Lifetime& a = buffers[i];
      ASSERT_EQ(a.offset % 64, 0);
      ASSERT_LE(a.offset + a.bytes, total);
      for (size_t j = i; j-- > 0;) {
        const Lifetime& b = buffers[j];
        if (b.last < a.first || a.bytes == 0 || b.bytes == 0) continue;
        ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j;
      }
    }
  }
}

TEST(Arena, ManyThatExceedAnyMemoryAreRefused) {
  std::vector<Lifetime> buffers(kMaxBySize + 1);
  for (Lifetime& b : buffers) b = {int64_t{1} << 60, 0, 1};
  EXPECT_THROW(place(buffers), Error);
}

// y = softmax(relu(x) + relu(x) * 2) reshaped, and an inner value as a second output.
Graph chain() {
  Graph g;
  Builder b(g, "chain");
  const ValueId x = g.add_input("x", DType::f32, std::vector<Dim>{{-1, "batch"}, {6, ""}});
  g.value(x).shape = Shape{2, 6};
  const ValueId relu = b.add("Relu", {x});
  const ValueId twice = b.add("Mul", {relu, b.scalar(DType::f32, 2)});
  const ValueId sum = b.add("Add", {relu, twice});
  const ValueId y = b.add("Softmax", {sum});
  g.add_output(b.add("Reshape", {y, b.ints({-1, 3})}), "y");
  g.add_output(relu, "relu");
  g.add_output(x, "x_again");
  g.value(x).shape.reset();
  return g;
}

TEST(Session, MatchesTheInterpreterForEveryShape) {
  Session session(chain());
  for (const int64_t batch : {1, 4, 3, 4, 1}) {
    const std::vector<Tensor> inputs{random_tensor({batch, 6}, 7 + static_cast<uint64_t>(batch))};
    expect_same(run_session(session, inputs), interpret(chain(), inputs));
  }
}

TEST(Session, OutputsOutliveTheNextInput) {
  Session session(chain(), {.dims = {{"batch", 2}}});
  run_session(session, {random_tensor({2, 6}, 1)});
  const ConstView again = session.output("x_again");
  const float before = again.as<float>()[0];
  session.input<float>("x")[0] = before + 1;
  EXPECT_EQ(again.as<float>()[0], before);
}

TEST(Session, AShapeOfTheOptionsFixesAnInput) {
  Session session(chain(), {.shapes = {{"x", Shape{3, 6}}}});
  EXPECT_EQ(session.input("x").shape, (Shape{3, 6}));
  const Tensor x = random_tensor({3, 6}, 1);
  expect_same(run_session(session, {x}), interpret(chain(), std::vector<Tensor>{x}));
  EXPECT_THROW(session.set_shape("x", Shape{2, 6}), Error);
  EXPECT_THROW(Session(chain(), {.shapes = {{"x", Shape{3, 5}}}}), Error);
  EXPECT_THROW(Session(chain(), {.shapes = {{"z", Shape{3, 6}}}}), Error);
  EXPECT_THROW(Session(chain(), {.dims = {{"batch", 2}}, .shapes = {{"x", Shape{3, 6}}}}), Error);
}

// An incomplete graph built by hand is rejected before it is compiled.
TEST(Session, AGraphThatIsNotWholeIsRefused) {
  Graph g = chain();
  g.add_state(Tensor::zeros(DType::f32, Shape{2}), "h");
  EXPECT_THROW(Session{std::move(g)}, Error);
  EXPECT_THROW(Session{Graph{}}, Error);
}

TEST(Session, NamesWhatIsWrong) {
  Session session(chain());
  EXPECT_THROW(session.run(), Error);  // batch is open
  EXPECT_THROW(session.input("z"), Error);
  EXPECT_THROW(session.output("y"), Error);  // not run yet
  EXPECT_THROW(session.set_shape("x", Shape{2, 7}), Error);
  const Tensor wrong = Tensor::zeros(DType::f64, Shape{2, 6});
  EXPECT_THROW(session.set_input("x", wrong.view()), Error);
  EXPECT_THROW(Session(chain(), {.device = "cuda"}), Error);
  EXPECT_THROW(Session(chain(), {.dims = {{"nothing", 2}}}), Error);
  try {
    const Session none(chain(), {.outputs = {"nowhere"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("it has: y, relu, x_again"), std::string::npos) << error.what();
  }
}

TEST(Session, SelectsAndSlicesOutputs) {
  const std::vector<Tensor> inputs{random_tensor({5, 6}, 3)};
  Session session(chain(), {.outputs = {"relu[-1, 1:5:2]", "relu[:, 2]", "relu"}});
  session.set_input("x", inputs[0].view());
  session.run();
  const auto whole = interpret(chain(), inputs)[1];
  // Several selections of one output are named by their texts.
  const ConstView row = session.output("relu[-1, 1:5:2]");
  ASSERT_EQ(row.shape, Shape{2});
  EXPECT_EQ(row.as<float>()[0], whole.data<float>()[4 * 6 + 1]);
  EXPECT_EQ(row.as<float>()[1], whole.data<float>()[4 * 6 + 3]);
  const ConstView column = session.output("relu[:, 2]");
  ASSERT_EQ(column.shape, Shape{5});
  EXPECT_EQ(column.as<float>()[3], whole.data<float>()[3 * 6 + 2]);
  EXPECT_EQ(session.output("relu").shape, (Shape{5, 6}));
  const Session one(chain(), {.dims = {{"batch", 1}}, .outputs = {" relu[:, 2]"}});
  EXPECT_EQ(one.outputs()[0].name, "relu");
  EXPECT_THROW({ Session twice(chain(), {.outputs = {"relu[0]", "relu", "relu[0] "}}); }, Error);
  for (const char* bad : {"", "y[", "y[a]", "y[::-1]", "y[1,2,3,4]", "y[]"}) {
    EXPECT_THROW({ Session bad_session(chain(), {.dims = {{"batch", 1}}, .outputs = {bad}}); }, Error) << bad;
  }
}

// Indices of positive elements, the elements themselves, and a reshape to a run-time shape after them.
Graph data_dependent() {
  Graph g;
  Builder b(g, "dyn");
  const ValueId x = g.add_input("x", DType::f32, Shape{7});
  const ValueId shape = g.add_input("shape", DType::i64, Shape{2});
  const ValueId positive = b.add("Greater", {x, b.scalar(DType::f32, 0)});
  const ValueId indices = b.add("NonZero", {positive});
  const ValueId flat = b.add("Reshape", {indices, b.ints({-1})});
  const ValueId picked = b.add("Gather", {x, flat});
  const ValueId doubled = b.add("Add", {picked, picked});
  const ValueId shaped = b.add("Reshape", {b.add("Concat", {doubled, x}, {{"axis", int64_t{0}}}), shape});
  g.add_output(shaped, "shaped");
  g.add_output(b.add("Shape", {picked}), "count");
  g.add_output(b.add("Neg", {x}), "negative");
  return g;
}

TEST(Session, ShapesThatDependOnValues) {
  Session session(data_dependent());
  for (const uint64_t seed : {1u, 2u, 3u, 1u, 2u}) {
    const Tensor x = random_tensor({7}, seed);
    int64_t positive = 0;
    for (const float value : x.data<float>()) positive += value > 0;
    const std::vector<Tensor> inputs{x, Tensor::ints({seed == 2u ? -1 : 1, seed == 2u ? 1 : 7 + positive})};
    expect_same(run_session(session, inputs), interpret(data_dependent(), inputs));
  }
}

TEST(Session, StatesSwapAndCount) {
  Graph g;
  Builder b(g, "state");
  const ValueId a = g.add_state(Tensor::scalar(1.f), "a"), c = g.add_state(Tensor::scalar(2.f), "c");
  const ValueId n = g.add_state(Tensor::scalar(0.f), "n");
  g.set_next(a, c);
  g.set_next(c, a);
  const ValueId next = b.add("Add", {n, b.scalar(DType::f32, 1)});
  g.set_next(n, next);
  g.add_output(b.add("Sub", {a, c}), "difference");
  g.add_output(n, "count");
  Session session(std::move(g));
  for (int i = 0; i < 3; ++i) {
    session.run();
    EXPECT_EQ(session.output<float>("difference")[0], i % 2 ? 1.f : -1.f);
    EXPECT_EQ(session.output<float>("count")[0], static_cast<float>(i));
  }
  session.reset_states();
  session.run();
  EXPECT_EQ(session.output<float>("count")[0], 0.f);
  EXPECT_EQ(session.output<float>("difference")[0], -1.f);
}

// Loop: sum of the first n squares, with every partial sum as a scan output; If picks a sign by the sum.
Graph loop_graph() {
  Graph body;
  {
    Builder b(body, "body");
    const ValueId i = body.add_input("i", DType::i64, Shape{});
    const ValueId keep = body.add_input("keep", DType::boolean, Shape{});
    const ValueId sum = body.add_input("sum", DType::f32, Shape{});
    const ValueId scale = body.add_input("scale", DType::f32, Shape{});  // captured
    const ValueId x = b.add("Cast", {i}, {{"to", int64_t{1}}});
    const ValueId next = b.add("Add", {sum, b.add("Mul", {b.add("Mul", {x, x}), scale})});
    body.add_output(b.add("Identity", {keep}), "keep");
    body.add_output(next, "sum");
    body.add_output(b.add("Identity", {next}), "partial");
  }
  Graph g;
  Builder b(g, "loop");
  const ValueId n = g.add_input("n", DType::i64, Shape{});
  const ValueId scale = g.add_input("scale", DType::f32, Shape{});
  const auto out = b.add_many("Loop", {n, ValueId{}, b.scalar(DType::f32, 0), scale},
                              {{"body", std::make_shared<const Graph>(body)}, {"captures", int64_t{1}}}, 2);
  g.add_output(b.add("Neg", {out[0]}), "negative_sum");
  g.add_output(out[1], "partial");
  return g;
}

TEST(Session, LoopsWithCaptures) {
  Session session(loop_graph());
  for (const int64_t n : {3, 0, 5, 3}) {
    const std::vector<Tensor> inputs{Tensor::scalar(n), Tensor::scalar(0.5f)};
    const auto got = run_session(session, inputs);
    expect_same(got, interpret(loop_graph(), inputs));
    EXPECT_EQ(got[0].data<float>()[0], n == 5 ? -15.f : n == 3 ? -2.5f : 0.f);
    EXPECT_EQ(got[1].shape()[0], n);
  }
}

// The branch that is not taken is invalid for these shapes: Squeeze of a dimension that is not 1.
TEST(Session, IgnoresTheBranchNotTaken) {
  const auto branch = [](bool squeeze) {
    Graph body;
    const ValueId x = body.add_input("x", DType::f32, std::vector<Dim>{{-1, ""}, {-1, ""}});
    Builder b(body, "branch");
    body.add_output(squeeze ? b.add("Squeeze", {x, b.ints({0})}) : b.add("Neg", {x}), "y");
    return std::make_shared<const Graph>(std::move(body));
  };
  Graph g;
  const ValueId condition = g.add_input("condition", DType::boolean, Shape{});
  const ValueId x = g.add_input("x", DType::f32, Shape{2, 3});
  const NodeId node = g.add_node(
      *find_op("", "If", 26), {condition, x},
      {{"then_branch", branch(true)}, {"else_branch", branch(false)}, {"captures", int64_t{1}}}, 1, "choose");
  g.add_output(g.node(node).outputs[0], "y");
  Session session(std::move(g));
  session.input<bool>("condition")[0] = false;
  session.input<float>("x")[4] = 5;
  session.run();
  EXPECT_EQ(session.output<float>("y")[4], -5.f);
  session.input<bool>("condition")[0] = true;
  EXPECT_THROW(session.run(), Error);
}

// Where both branches give one shape, what follows an If is planned with what comes before it.
TEST(Session, AnIfWhoseBranchesAgreeHasAShape) {
  const auto branch = [](const char* op) {
    Graph body;
    const ValueId x = body.add_input("x", DType::f32, std::vector<Dim>{{-1, ""}, {-1, ""}});
    Builder b(body, "branch");
    body.add_output(std::string(op) == "Squeeze" ? b.add(op, {x, b.ints({0})}) : b.add(op, {x}), "y");
    return std::make_shared<const Graph>(std::move(body));
  };
  Graph g;
  const ValueId condition = g.add_input("condition", DType::boolean, Shape{});
  const ValueId x = g.add_input("x", DType::f32, Shape{1, 3});
  const auto choose = [&](ValueId from, const char* yes, const char* no) {
    const Attributes bodies{{"then_branch", branch(yes)}, {"else_branch", branch(no)}, {"captures", int64_t{1}}};
    return g.node(g.add_node(*find_op("", "If", 26), {condition, from}, bodies, 1)).outputs[0];
  };
  const ValueId same = choose(choose(x, "Neg", "Abs"), "Exp", "Neg"), other = choose(x, "Neg", "Squeeze");
  infer(g);
  ASSERT_TRUE(g.value(same).shape.has_value());
  EXPECT_EQ(*g.value(same).shape, (Shape{1, 3}));
  EXPECT_FALSE(g.value(other).shape.has_value());
  g.add_output(same, "same");
  g.add_output(other, "other");
  Session session(std::move(g));
  session.input<float>("x")[1] = -2;
  for (const bool chosen : {true, false, true}) {
    session.input<bool>("condition")[0] = chosen;
    session.run();
    EXPECT_NEAR(session.output<float>("same")[1], chosen ? std::exp(2.0f) : -2.0f, 1e-5);
    EXPECT_EQ(session.output("other").shape, chosen ? (Shape{1, 3}) : Shape{3});
  }
}

// x, divided by d if `divides` -> convolution, relu -> max pooling -> convolution, clip -> products, relu.
Graph network_that_may_lose_nan(bool divides) {
  Graph graph;
  Builder b(graph, "n");
  ValueId x = graph.add_input("x", DType::f32, Shape{1, 16, 24, 20});
  if (divides) x = b.add("Div", {x, graph.add_input("d", DType::f32, Shape{1, 16, 24, 20})});
  const auto weight = [&](const Shape& shape, uint64_t seed) { return b.constant(random_tensor(shape, seed)); };
  const Attributes same{{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  ValueId y = b.add("Relu", {b.add("Conv", {x, weight(Shape{32, 16, 3, 3}, 1), weight(Shape{32}, 2)}, same)});
  y = b.add("MaxPool", {y}, {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  y = b.add("Conv", {y, weight(Shape{64, 32, 3, 3}, 3)}, same);
  y = b.add("Clip", {y, b.scalar(DType::f32, -1), b.scalar(DType::f32, 6)});
  y = b.add("Reshape", {b.add("GlobalAveragePool", {y}), b.ints({1, 64})});
  graph.add_output(b.add("Relu", {b.add("Gemm", {y, weight(Shape{64, 48}, 4), weight(Shape{48}, 5)})}), "y");
  return graph;
}

int64_t count_nans(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const float v : tensors[0].data<float>()) count += std::isnan(v);
  return count;
}

// A NaN that a fast kernel would turn into a number has to reach the output, wherever it comes from.
TEST(Session, KeepsNaN) {
  for (const bool divides : {false, true}) {
    const Graph graph = network_that_may_lose_nan(divides);
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      SessionOptions options;
      options.passes.precision = precision;
      try {
        check_precision(precision);
      } catch (const Error&) {
        continue;
      }
      SCOPED_TRACE(std::string(divides ? "0 / 0 inside" : "NaN in an input") +
                   (precision == Precision::bf16 ? " bf16" : " fp32"));
      Session session(graph, options);
      std::vector<Tensor> sane, broken;
      for (size_t i = 0; i < graph.inputs().size(); ++i) {
        sane.push_back(random_tensor(Shape{1, 16, 24, 20}, 7 + i));
        broken.push_back(sane.back().clone());
        broken.back().data<float>()[3000] = divides ? 0 : std::nanf("");
      }
      const std::vector<Tensor> before = run_session(session, sane);
      EXPECT_EQ(count_nans(before), 0);
      EXPECT_EQ(count_nans(run_session(session, broken)), count_nans(interpret(graph, broken)));
      EXPECT_GT(count_nans(run_session(session, broken)), 0);
      const std::vector<Tensor> after = run_session(session, sane);
      EXPECT_EQ(std::memcmp(after[0].raw(), before[0].raw(), static_cast<size_t>(before[0].bytes())), 0);
    }
  }
}

TEST(Session, SeveralThreadsWithOneEach) {
  const std::vector<Tensor> inputs{random_tensor({64, 6}, 11)};
  const auto expected = interpret(chain(), inputs);
  std::vector<std::vector<Tensor>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      Session session(chain(), {.threads = 2});
      for (int i = 0; i < 20; ++i) result = run_session(session, inputs);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) expect_same(result, expected);
}

TEST(Session, KeepsAndVisitsValues) {
  Session session(chain(), {.dims = {{"batch", 2}}, .passes = {.off = {"all"}}, .keep = {"all"}});
  run_session(session, {random_tensor({2, 6}, 5)});
  int seen = 0;
  session.visit_values([&](const RunValue& value) {
    EXPECT_FALSE(value.name.empty() && value.node.empty());
    EXPECT_TRUE(value.view.data);
    ++seen;
  });
  EXPECT_GE(seen, 5);
}

// The memory of a value that is kept is not used again, and nothing else is visited.
TEST(Session, KeepsTheValuesThatAreNamed) {
  Graph graph = chain();
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.value(ValueId{i});
    if (value.producer.present()) value.name = fmt::format("of_{}", graph.node(value.producer).op->name);
  }
  const Tensor x = random_tensor({2, 6}, 5);
  for (const char* kept : {"of_Relu", "of_Mul", "of_Add", "of_Softmax"}) {
    Session session(graph, {.dims = {{"batch", 2}}, .passes = {.off = {"all"}}, .keep = {kept, "of_nothing"}});
    run_session(session, {x});
    int seen = 0;
    session.visit_values([&](const RunValue& value) {
      ++seen;
      EXPECT_EQ(value.name, kept);
      const auto* got = value.view.as<float>();
      for (int64_t i = 0; i < 12; ++i) {
        const float relu = std::max(0.0f, x.data<float>()[static_cast<size_t>(i)]);
        const float times = value.name == "of_Relu" ? 1 : value.name == "of_Mul" ? 2 : 3;
        if (value.name != "of_Softmax") {
          EXPECT_EQ(got[i], times * relu);
        }
      }
    });
    EXPECT_EQ(seen, 1) << kept;
  }
}

// A kept view of a state shows what the run read, not what it left for the next one.
TEST(Session, KeepsViewsOfStates) {
  Graph g;
  Builder b(g, "n");
  const ValueId x = g.add_input("x", DType::f32, Shape{2, 3}), state = g.add_state(random_tensor({2, 3}, 3), "s");
  const ValueId view = b.add("Reshape", {state, b.ints({3, 2})});
  g.value(view).name = "view";
  g.set_next(state, b.add("Add", {state, x}));
  g.add_output(b.add("Neg", {view}), "y");
  Session session(std::move(g), {.passes = {.off = {"all"}}, .keep = {"view"}});
  for (int run = 0; run < 2; ++run) {
    run_session(session, {random_tensor({2, 3}, 5)});
    int seen = 0;
    session.visit_values([&](const RunValue& value) {
      ++seen;
      for (int64_t i = 0; i < 6; ++i)
        EXPECT_EQ(value.view.as<float>()[i], -session.output<float>("y")[static_cast<size_t>(i)]);
    });
    EXPECT_EQ(seen, 1);
  }
}

TEST(RunValue, InTheLayoutOfTheFile) {
  for (const DType dtype : {DType::f32, DType::f16, DType::u8, DType::i4, DType::u4}) {
    Tensor image(dtype, Shape{2, 3, 1, 5});  // channels last
    for (int64_t i = 0; i < image.elements(); ++i) store_element(dtype, image.raw(), i, static_cast<double>(i % 7));
    const Tensor moved = in_file_layout({"image", "node", image.view(), true});
    EXPECT_EQ(moved.shape(), (Shape{2, 5, 3, 1}));
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t c = 0; c < 5; ++c) {
        for (int64_t p = 0; p < 3; ++p) {
          EXPECT_EQ(load_element(dtype, moved.raw(), (n * 5 + c) * 3 + p),
                    load_element(dtype, image.raw(), (n * 3 + p) * 5 + c));
        }
      }
    }
    EXPECT_EQ(in_file_layout({"image", "node", image.view(), false}).shape(), image.shape());
  }
}

TEST(Session, ProfileSaysWhyFasterKernelsDeclined) {
  const auto profiled = [](bool constant, const std::string& kernel) {
    Graph g;
    Builder b(g, "layer");
    const ValueId x = g.add_input("x", DType::f32, std::vector<Dim>{{16, ""}, {32, ""}});
    const ValueId w = constant ? b.constant(random_tensor(Shape{32, 24}, 1))
                               : g.add_input("w", DType::f32, std::vector<Dim>{{32, ""}, {24, ""}});
    g.add_output(b.add("sparkpilot::Gemm", {x, w}), "y");
    Session session(std::move(g), {.threads = 1, .kernels = kernel, .profile = true});
    session.run();
    return session.profile().nodes.at(0);
  };
  EXPECT_EQ(profiled(true, "").kernel, "simd");
  EXPECT_TRUE(profiled(true, "").declined.empty());
  const NodeProfile at_run = profiled(false, "");
  EXPECT_NE(at_run.kernel, "simd");
  ASSERT_FALSE(at_run.declined.empty());
  EXPECT_EQ(at_run.declined[0].kernel, "simd");
  EXPECT_EQ(at_run.declined[0].reason, "weights are not constant");
  const NodeProfile forced = profiled(true, "reference");
  EXPECT_EQ(forced.kernel, "reference");
  ASSERT_FALSE(forced.declined.empty());
  EXPECT_EQ(forced.declined[0].reason, "another is asked for");
}

// Kernels that are prepared for a number of threads are prepared for one as well; the others serve both.
TEST(Plan, RunsAlsoWithOneThread) {
  Graph g;
  Builder b(g, "net");
  ValueId y = g.add_input("x", DType::f32, Shape{1, 24, 40, 16});
  const Attributes attrs{{"channels_last", int64_t{1}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  y = b.add("sparkpilot::Conv", {y, b.constant(random_tensor({48, 16, 3, 3}, 1))}, attrs);
  y = b.add("sparkpilot::Gemm", {y, b.constant(random_tensor({48, 32}, 2))});
  g.add_output(y, "y");
  infer(g);
  const Tensor x = random_tensor({1, 24, 40, 16}, 3);
  const void* inputs[] = {x.raw()};
  StateStore states;
  const auto run = [&](Plan& plan, int threads) {
    const ThreadScope scope(threads);
    plan.run(inputs);
    Tensor copy(DType::f32, plan.outputs()[0].shape);
    std::memcpy(copy.raw(), plan.outputs()[0].data, static_cast<size_t>(copy.bytes()));
    return copy;
  };
  const PlanOptions for_one{.alone = false}, for_both{.alone = true};
  const auto make = [&](const PlanOptions& options, int threads) {
    const ThreadScope scope(threads);
    return std::make_unique<Plan>(optimised(g, options.passes), options, states);
  };
  const auto one = make(for_one, 1), both = make(for_both, 2);
  const Tensor expected = run(*one, 1);
  EXPECT_LE(relative_l2(run(*both, 2), expected), 2e-6);
  EXPECT_EQ(std::memcmp(run(*both, 1).raw(), expected.raw(), static_cast<size_t>(expected.bytes())), 0);
  EXPECT_LE(relative_l2(run(*both, 2), expected), 2e-6);
}

TEST(Session, CountsOfATableWhatIsPicked) {
  Graph g;
  Builder b(g, "lookup");
  const ValueId table = g.add_constant(random_tensor({1000, 64}, 1));
  const ValueId rows = g.add_input("rows", DType::i64, std::vector<Dim>{{3, ""}});
  g.add_output(b.add("Gather", {table, rows}), "y");
  Session session(std::move(g), {.profile = true});
  session.run();
  const Profile profile = session.profile();
  ASSERT_EQ(profile.nodes.size(), 1U);
  EXPECT_EQ(profile.nodes[0].bytes, 2 * 3 * 64 * 4 + 3 * 8);  // three rows read and written, and their indices
  EXPECT_LE(profile.nodes[0].weight_bytes, profile.nodes[0].bytes);
}

TEST(Session, ProfilesEveryNode) {
  Session session(chain(), {.dims = {{"batch", 2}}, .trace = true});
  for (int i = 0; i < 3; ++i) session.run();
  Profile profile = session.profile();
  EXPECT_GT(set_roofline(profile, measure_peak(1)).share, 0);
  int64_t calls = 0;
  for (const NodeProfile& node : profile.nodes) calls += node.calls;
  EXPECT_EQ(static_cast<size_t>(calls), profile.events.size());
  EXPECT_GT(calls, 0);
  EXPECT_NE(chrome_trace(profile, "test").find("\"traceEvents\""), std::string::npos);
}

// Each once, and those of nodes whose shapes only a run tells.
TEST(Session, WeightsAreTheConstantsThatNodesRead) {
  Graph g;
  g.opsets[""] = 17;
  Builder b(g, "");
  const ValueId x = b.input("x", DType::f32, {4}), twice = b.constant(random_tensor({8, 8}, 1), "twice");
  b.constant(random_tensor({100}, 2), "unused");
  const ValueId table = b.constant(random_tensor({4, 8}, 3), "table");
  ValueId y = b.add("Gather", {table, b.add("NonZero", {x})});
  y = b.add("MatMul", {b.add("MatMul", {y, twice}), twice});
  b.output(y, "behind");
  Session session(g, {.threads = 1});
  run_session(session, {random_tensor({4}, 4)});
  EXPECT_EQ(session.weight_bytes(), (4 * 8 + 8 * 8) * 4);
}

}  // namespace
}  // namespace sparkpilot
