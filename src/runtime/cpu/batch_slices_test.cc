// Large batches in slices: the same results as without slices, for any size and number of threads; and graphs that must
// not be sliced.
#include "runtime/cpu/batch_slices.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "base/test_files.h"
#include "passes/test_graph.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace batch_slices_test {

using testing::random_tensor;

const std::vector<Dim> kRows{{-1, "batch"}, {6, {}}, {16, {}}};

Graph empty_graph() {
  Graph g;
  g.opsets[""] = 26;
  return g;
}

// A small transformer: a table lookup, a norm, attention on parts of one product, a wide layer, the last position.
Graph transformer() {
  Graph g = empty_graph();
  Builder b(g, "", 26);
  const auto weight = [&](const Shape& shape, uint64_t seed) {
    return b.constant(random_tensor(shape, seed, DType::f32, 0.3));
  };
  const ValueId x = g.add_input("x", DType::f32, kRows);
  const ValueId tokens = g.add_input("tokens", DType::i64, std::vector<Dim>{{-1, "batch"}, {6, {}}});
  const ValueId h = b.add("Add", {x, b.add("Gather", {weight({9, 16}, 1), tokens})});
  const ValueId norm = b.add("LayerNormalization", {h, weight({16}, 2), weight({16}, 3)});
  const ValueId qkv = b.add("MatMul", {norm, weight({16, 48}, 4)});
  const auto parts = b.add_many("Split", {qkv, b.ints({16, 16, 16})}, {{"axis", int64_t{2}}}, 3);
  const ValueId attention =
      b.add("Attention", {parts[0], parts[1], parts[2]}, {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}});
  const ValueId mixed = b.add("Add", {h, b.add("MatMul", {attention, weight({16, 16}, 5)})});
  const ValueId wide = b.add("Gelu", {b.add("MatMul", {mixed, weight({16, 2000}, 6)})});
  const ValueId y = b.add("MatMul", {wide, weight({2000, 16}, 7)});
  g.add_output(b.add("Slice", {y, b.ints({5}), b.ints({6}), b.ints({1})}), "y");
  return g;
}

Tensor run(const Graph& graph, int64_t batch, SessionOptions options) {
  Session session(graph, std::move(options));
  session.set_input("x", random_tensor({batch, 6, 16}, 11).view());
  if (session.inputs().size() > 1) {
    Tensor tokens(DType::i64, Shape{batch, 6});
    for (int64_t i = 0; i < tokens.elements(); ++i) tokens.data<int64_t>()[static_cast<size_t>(i)] = i * i % 9;
    session.set_input("tokens", tokens.view());
  }
  session.run();
  session.run();  // a second run reuses the lanes
  const ConstView view = session.output("y");
  return Tensor::of<float>(view.shape, std::span<const float>(view.as<float>(), static_cast<size_t>(view.elements())));
}

Graph bound(Graph graph, int64_t batch) {
  for (const ValueId id : graph.inputs()) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : *graph.value(id).declared) sizes.push_back(dim.size < 0 ? batch : dim.size);
    bind_input(graph, id, Shape(std::span<const int64_t>(sizes)));
  }
  return graph;
}

bool is_sliced(const Graph& graph, int64_t batch) {
  const Graph source = bound(graph, batch);
  Graph whole = optimised(source);
  if (!may_be_sliced(source, whole, {})) return false;
  const int64_t entries = entries_of_a_slice(whole, batch);
  return entries < batch && slice_of_batch(source, whole, entries, {}).has_value();
}

TEST(BatchSlices, GiveWhatTheWholeBatchGives) {
  const Graph graph = transformer();
  const int64_t processors = available_processors();
  for (const int64_t batch : {9 * processors, 32 * processors, 50 * processors + 1}) {
    ASSERT_TRUE(is_sliced(graph, batch)) << batch;
    const Tensor sliced = run(graph, batch, {.threads = 2});
    const Tensor serial = run(graph, batch, {.threads = 1});
    const Tensor whole = run(graph, batch, {.threads = 2, .keep = {"all"}});  // never sliced
    ASSERT_EQ(sliced.shape(), whole.shape());
    EXPECT_EQ(testing::distance(sliced, serial), 0) << batch;
    EXPECT_EQ(testing::distance(sliced, whole), 0) << batch;
  }
}

// The decision of a session about its batch.
KernelDecision cut_of(const Session& session) {
  for (const KernelDecision& choice : session.choices()) {
    if (choice.node.starts_with("entries of the batch")) return choice;
  }
  return {};
}

struct Cut {
  Tensor y;
  KernelDecision decision;
};

Cut run_cut(const Graph& graph, int64_t batch, SessionOptions options) {
  Session session(graph, std::move(options));
  session.set_shape("x", {batch, 6, 16});
  session.set_shape("tokens", {batch, 6});
  session.set_input("x", random_tensor({batch, 6, 16}, 11).view());
  session.run();
  const ConstView y = session.output("y");
  return {Tensor::of<float>(y.shape, std::span<const float>(y.as<float>(), static_cast<size_t>(y.elements()))),
          cut_of(session)};
}

TEST(BatchSlices, AnySizeMayBeRestored) {
  const Graph graph = transformer();
  const int64_t batch = 32 * available_processors();
  const Cut by_rule = run_cut(graph, batch, {.threads = 1});
  EXPECT_EQ(by_rule.decision.by, ChosenBy::rules);
  ASSERT_FALSE(by_rule.decision.kernel.empty());
  EXPECT_LT(std::stoll(by_rule.decision.kernel), batch);
  KernelDecision choice = by_rule.decision;
  for (const int64_t entries : {int64_t{1}, int64_t{5}, batch}) {
    choice.kernel = std::to_string(entries);
    const Cut restored = run_cut(graph, batch, {.threads = 2, .choices = {choice}});
    EXPECT_EQ(restored.decision.by, ChosenBy::restored);
    EXPECT_EQ(restored.decision.kernel, choice.kernel);
    EXPECT_LT(testing::distance(restored.y, by_rule.y), 1e-5) << entries;
  }
  for (const char* wrong : {"0", "-3", "many", "5x", "9999999", ""}) {
    choice.kernel = wrong;
    const Cut refused = run_cut(graph, batch, {.threads = 1, .choices = {choice}});
    EXPECT_EQ(refused.decision.by, ChosenBy::rules) << wrong;
    EXPECT_EQ(refused.decision.kernel, by_rule.decision.kernel) << wrong;
    EXPECT_FALSE(refused.decision.note.empty()) << wrong;
  }
}

// It does not matter whether the size comes with the inputs or from an option.
TEST(BatchSlices, NamedDimensionsAreCutToo) {
  const Graph graph = transformer();
  const int64_t batch = 32 * available_processors();
  const Cut open = run_cut(graph, batch, {.threads = 1}),
            fixed = run_cut(graph, batch, {.threads = 1, .dims = {{"batch", batch}}});
  EXPECT_EQ(fixed.decision.kernel, open.decision.kernel);
  EXPECT_LT(std::stoll(fixed.decision.kernel), batch);
  EXPECT_EQ(testing::distance(fixed.y, open.y), 0);
}

// The other sizes are timed once; later processes know the result.
// The batch is open as the file has it, but a constant has it too.
TEST(BatchSlices, ABatchThatTheModelFixesStaysWhole) {
  Graph graph = empty_graph();
  Builder b(graph, "", 26);
  const ValueId x = graph.add_input("x", DType::f32, kRows);
  graph.add_output(b.add("Add", {x, b.constant(random_tensor({13, 6, 16}, 1))}), "y");
  EXPECT_FALSE(slice_of_batch(bound(graph, 13), graph, 7, {}));
  for (const Tune tune : {Tune::off, Tune::full}) {
    EXPECT_EQ(run(graph, 13, {.threads = 2, .tune = tune}).shape(), (Shape{13, 6, 16}));
  }
}

TEST(BatchSlices, TimingKeepsTheSize) {
  const TempFolder folder;
  const std::string file = folder.file("tuning.json");
  const Graph graph = transformer();
  const int64_t batch = 32 * available_processors();
  const Cut full = run_cut(graph, batch, {.threads = 2, .tuning_file = file, .tune = Tune::full});
  if (full.decision.by != ChosenBy::measured) GTEST_SKIP() << "the machine stood still for too long";
  const Cut later = run_cut(graph, batch, {.threads = 2, .tuning_file = file});
  EXPECT_EQ(later.decision.by, ChosenBy::measured);
  EXPECT_EQ(later.decision.kernel, full.decision.kernel);
  EXPECT_EQ(run_cut(graph, batch, {.threads = 2, .tuning_file = file, .tune = Tune::off}).decision.by, ChosenBy::rules);
  EXPECT_LT(testing::distance(full.y, run_cut(graph, batch, {.threads = 1}).y), 1e-5);
}

TEST(BatchSlices, FewEntriesStayTogether) {
  EXPECT_FALSE(is_sliced(transformer(), 1));
  EXPECT_FALSE(is_sliced(transformer(), 7));
}

// y = f(x) with a node that reads the whole batch, or its size.
TEST(BatchSlices, EntriesThatMixStayTogether) {
  const auto graph = [](auto&& make) {
    Graph g = empty_graph();
    Builder b(g, "", 26);
    const ValueId x = g.add_input("x", DType::f32, kRows);
    const ValueId wide = b.add("MatMul", {x, b.constant(random_tensor({16, 2000}, 1))});
    g.add_output(make(b, x, wide), "y");
    return g;
  };
  EXPECT_TRUE(is_sliced(graph([](Builder& b, ValueId, ValueId wide) { return b.add("Relu", {wide}); }),
                        32 * available_processors()));
  EXPECT_FALSE(is_sliced(graph([](Builder& b, ValueId, ValueId wide) {
                           return b.add("Softmax", {wide}, {{"axis", int64_t{0}}});
                         }),
                         32 * available_processors()));
  EXPECT_FALSE(is_sliced(graph([](Builder& b, ValueId, ValueId wide) {
                           return b.add("Sub", {wide, b.add("ReduceMean", {wide, b.ints({0})})});
                         }),
                         32 * available_processors()));
  EXPECT_FALSE(is_sliced(graph([](Builder& b, ValueId, ValueId wide) {
                           return b.add("Slice", {wide, b.ints({-1}), b.ints({-99}), b.ints({0}), b.ints({-1})});
                         }),
                         32 * available_processors()));
  EXPECT_FALSE(is_sliced(graph([](Builder& b, ValueId x, ValueId wide) {
                           const ValueId size = b.add("Cast", {b.add("Shape", {x})}, {{"to", int64_t{1}}});
                           return b.add("Div", {wide, b.add("Gather", {size, b.ints({0})})});
                         }),
                         32 * available_processors()));
  EXPECT_FALSE(is_sliced(graph([](Builder& b, ValueId, ValueId wide) {
                           return b.add("Transpose", {wide}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
                         }),
                         32 * available_processors()));
}

}  // namespace batch_slices_test
}  // namespace sparkpilot
