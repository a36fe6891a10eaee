// Adapters as nodes and in the weights: the same results, whatever the layer.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "adapters/load_model.h"
#include "adapters/test_models.h"
#include "base/test_error.h"
#include "base/test_files.h"
#include "grad/differentiate.h"
#include "passes/rebatch.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::testing {
namespace {

TEST(Layers, HaveTheirModulesPathsAndShapes) {
  std::map<std::string, std::string> found, cannot;
  for (const Layer& layer : find_layers(every_layer(DType::f16))) {
    found[layer.path] = layer.weight.str();
    EXPECT_EQ(layer.dtype, DType::f16);
    if (!layer.cannot.empty()) cannot[layer.path] = layer.cannot;
  }
  const std::map<std::string, std::string> expected{
      {"net.fc", "[7,6]"},      {"net.out", "[5,7]"},     {"net.mix", "[9,6]"},
      {"MatMul_1", "[4,9]"},    {"stem", "[6,4,3,3]"},    {"depth", "[6,1,3,3]"},
      {"grouped", "[8,3,1,1]"}, {"dilated", "[5,8,2,3]"}, {"wave", "[4,3,3]"}};
  EXPECT_EQ(found, expected);
  ASSERT_EQ(cannot.size(), 1u);
  EXPECT_TRUE(cannot.contains("depth"));
}

TEST(Layers, KeepOtherReadersOfTheirWeights) {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g);
  const ValueId w = b.constant(random_tensor({4, 4}, 1, DType::f16), "both.weight");
  const ValueId wide = b.add("Cast", {w}, {{"to", onnx_code(DType::f32)}});
  const ValueId x = b.input("x", DType::f32, {1, 4});
  b.output(b.add("MatMul", {x, wide}, {}, "/both/MatMul"), "y");
  b.output(b.add("Neg", {wide}), "weights");
  const std::vector<Tensor> before = interpret(g, inputs_of(g, 3));
  const std::vector<Layer> layers = find_layers(g);
  ASSERT_EQ(layers.size(), 1u);
  set_layer_weights(g, layers[0], Tensor::zeros(DType::f32, {4, 4}));
  const std::vector<Tensor> after = interpret(g, inputs_of(g, 3));
  EXPECT_EQ(distance(after[1], before[1]), 0);
  for (const float y : after[0].data<float>()) EXPECT_EQ(y, 0);
}

AdapterOptions options_of(AdapterKind kind) {
  // Grouped layers take even ranks only.
  return {.kind = kind, .target = "(?!grouped).*", .rank = 3, .alpha = 2, .seed = 5};
}

class Kinds : public ::testing::TestWithParam<AdapterKind> {};

TEST_P(Kinds, ChangeNothingUntilTheyAreTrained) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Graph base = every_layer(dtype);
    Graph merged = base;
    const Adapter adapter = create_adapter(base, options_of(GetParam()));
    merge_adapters(merged, {{&adapter}});
    for (const Layer& layer : find_layers(base)) {
      const Tensor before = *base.constant(layer.constant), after = *merged.constant(layer.constant);
      EXPECT_EQ(after.dtype(), dtype);
      EXPECT_LE(distance(after, before), dtype == DType::f32 ? 1e-7 : 0) << layer.path;
    }
  }
}

TEST_P(Kinds, GiveTheSameAsNodesAndMerged) {
  const Graph base = every_layer();
  Adapter adapter = create_adapter(base, options_of(GetParam()));
  AdapterOptions grouped = options_of(GetParam());
  grouped.target = "grouped";
  grouped.rank = 4;
  for (AdapterLayer& layer : create_adapter(base, grouped).layers) adapter.layers.push_back(std::move(layer));
  EXPECT_EQ(adapter.layers.size(), 8u);
  shake(adapter, 40);
  Graph merged = base;
  merge_adapters(merged, {{&adapter}});
  for (const auto& [batch, form] : {std::pair(1, AdapterForm::branches),
                                    {3, AdapterForm::branches},
                                    {1, AdapterForm::weights},
                                    {3, AdapterForm::weights},
                                    {3, AdapterForm::cheaper}}) {
    Graph apart = base;
    const std::vector<Layer> layers = match_layers(apart, adapter);
    name_layers(apart);
    if (batch > 1) apart = rebatch(std::move(apart), batch);
    prepare(apart, {.precision = Precision::fp32});
    const AppliedAdapter applied = apply_adapter(apart, adapter, layers, form);
    EXPECT_EQ(applied.parameters.size(), adapter.layers.size() * (GetParam() == AdapterKind::dora ? 3 : 2));
    Graph whole = batch > 1 ? rebatch(merged, batch) : merged;
    const std::vector<Tensor> inputs = inputs_of(whole, 9);
    const std::vector<Tensor> expected = interpret(whole, inputs), got = interpret(apart, inputs);
    const std::vector<Tensor> unchanged = interpret(batch > 1 ? rebatch(base, batch) : base, inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(distance(got[i], expected[i]), 1e-6) << whole.outputs()[i].name;
      EXPECT_GE(distance(got[i], unchanged[i]), 0.05) << whole.outputs()[i].name;
    }
    // The same after the passes that fuse.
    lower(apart);
    const std::vector<Tensor> fused = interpret(apart, inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_LE(distance(fused[i], expected[i]), 1e-6);
  }
}

// A product of many samples with few weights is made of changed weights, one of few samples with many has branches.
TEST_P(Kinds, TakeTheFormOfFewerMultiplyAdds) {
  for (const bool many : {false, true}) {
    Graph g;
    g.opsets[""] = 26;
    Builder b(g);
    const int64_t samples = many ? 400 : 4, width = many ? 12 : 200;
    const Tensor weights = random_tensor({width, width}, 4);
    b.output(b.add("MatMul", {b.input("x", DType::f32, {samples, width}), b.constant(weights, "fc.weight")}), "y");
    const Adapter adapter = create_adapter(g, {.kind = GetParam(), .rank = 4});
    const std::vector<Layer> layers = match_layers(g, adapter);
    name_layers(g);
    prepare(g, {.precision = Precision::fp32});
    apply_adapter(g, adapter, layers, AdapterForm::cheaper);
    const auto branches =
        std::ranges::count_if(g.order(), [&](NodeId id) { return g.node(id).name.ends_with("lora_A"); });
    EXPECT_EQ(branches, many ? 0 : 1);
  }
}

TEST_P(Kinds, ComeOutAgain) {
  const Graph base = every_layer();
  Adapter adapter = create_adapter(base, options_of(GetParam()));
  shake(adapter, 3);
  Graph graph = base;
  merge_adapters(graph, {{&adapter}});
  EXPECT_NE(error_of([&] { merge_adapters(graph, {{&adapter}}); }).find("made for another model"), std::string::npos);
  Adapter nameless = adapter;  // as PEFT writes them
  nameless.base_fingerprint.clear();
  EXPECT_NE(error_of([&] { merge_adapters(graph, {{&nameless}}); }).find("was merged into the model already"),
            std::string::npos);
  Adapter other = adapter;
  other.layers[1].alpha = 7;
  EXPECT_NE(error_of([&] { unmerge_adapter(graph, other); }).find("another adapter"), std::string::npos);
  unmerge_adapter(graph, adapter);
  for (const Layer& layer : find_layers(base)) {
    EXPECT_LE(distance(layer_weights(graph, layer), layer_weights(base, layer)), 1e-6) << layer.path;
  }
  EXPECT_TRUE(graph.metadata.empty());
  EXPECT_NE(error_of([&] { unmerge_adapter(graph, adapter); }).find("names no adapter"), std::string::npos);
}

// One that was made for a merged model goes on top, and comes out first.
TEST_P(Kinds, FollowOneAnother) {
  const TempFolder folder;
  const Graph base = every_layer();
  save_onnx(base, folder / "base.onnx");
  Adapter first = create_adapter(base, options_of(GetParam()));
  shake(first, 3);
  save_adapter(first, folder / "first");
  Graph once = base;
  merge_adapters(once, {{&first}});
  Adapter second = create_adapter(once, options_of(GetParam()));
  shake(second, 40);
  std::ranges::reverse(second.layers);  // as a file's may be
  save_adapter(second, folder / "second");
  Graph twice = once;
  merge_adapters(twice, {{&second}});
  const auto named = [&](const std::string& a, const std::string& b) {
    return load_model(
        fmt::format("{}@{}@{}", (folder / "base.onnx").string(), (folder / a).string(), (folder / b).string()));
  };
  EXPECT_EQ(base_fingerprint(named("first", "second")), base_fingerprint(twice));
  for (const auto& [a, b] : {std::pair("second", "first"), std::pair("first:0.5", "second")}) {
    EXPECT_NE(error_of([&] { named(a, b); }).find("made for another model"), std::string::npos);
  }
  EXPECT_NE(error_of([&] { unmerge_adapter(twice, first); }).find("another adapter"), std::string::npos);
  unmerge_adapter(twice, load_adapter(folder / "second"));
  for (const Layer& layer : find_layers(once)) {
    EXPECT_LE(distance(layer_weights(twice, layer), layer_weights(once, layer)), 1e-6) << layer.path;
  }
  EXPECT_EQ(twice.metadata, once.metadata);
  unmerge_adapter(twice, first);
  EXPECT_TRUE(twice.metadata.empty());
}

// What is merged while the tensors are at hand comes out by what the file holds, in 16 bits too.
TEST_P(Kinds, ComeOutByTheirFiles) {
  const TempFolder folder;
  const Graph base = every_layer(DType::f16);
  AdapterOptions options = options_of(GetParam());
  options.stored = DType::f16;
  Adapter adapter = create_adapter(base, options);
  shake(adapter, 3);
  std::ranges::reverse(adapter.layers);
  save_adapter(adapter, folder / "adapter");
  Graph graph = base, by_file = base;
  const Adapter stored = as_stored(adapter), read = load_adapter(folder / "adapter");
  merge_adapters(graph, {{&stored}});
  merge_adapters(by_file, {{&read}});
  EXPECT_EQ(base_fingerprint(graph), base_fingerprint(by_file));
  unmerge_adapter(graph, read);
  EXPECT_TRUE(graph.metadata.empty());
}

TEST(ModelNames, MayHaveAnAtInTheirFolders) {
  const TempFolder folder;
  const std::filesystem::path home = folder / "me@home", model = home / "a.onnx";
  write_text(model, "x");
  for (const char* adapter : {"b", "b@c", "d"}) std::filesystem::create_directory(home / adapter);
  std::filesystem::create_directory(folder / "me");
  const ModelName name =
      parse_model_name(model.string() + "@" + (home / "b@c").string() + ":0.5@" + (home / "d").string());
  EXPECT_EQ(name.file, model);
  ASSERT_EQ(name.adapters.size(), 2u);
  EXPECT_EQ(name.adapters[0].folder, home / "b@c");
  EXPECT_EQ(name.adapters[0].by, 0.5);
  EXPECT_EQ(parse_model_name("none@x@y:2").adapters.size(), 2u);
  EXPECT_TRUE(parse_model_name(model).adapters.empty());
}

TEST_P(Kinds, AddUp) {
  const Graph base = every_layer();
  Adapter a = create_adapter(base, options_of(GetParam())), b = create_adapter(base, options_of(GetParam()));
  shake(a, 3);
  shake(b, 70);
  Graph both = base, half = base, first = base, second = base;
  merge_adapters(both, {{&a, 1}, {&b, -0.5}});
  merge_adapters(first, {{&a}});
  merge_adapters(second, {{&b}});
  for (const Layer& layer : find_layers(base)) {
    const auto w = [&](const Graph& g, int64_t i) {
      return double{layer_weights(g, layer).data<float>()[static_cast<size_t>(i)]};
    };
    const double at = w(base, 0);
    EXPECT_NEAR(w(both, 0), at + (w(first, 0) - at) - 0.5 * (w(second, 0) - at), 1e-5) << layer.path;
  }
  const std::vector<LayerDifference> rows = compare_adapters(base, a, b);
  ASSERT_EQ(rows.size(), a.layers.size());
  for (const LayerDifference& row : rows) {
    EXPECT_GT(row.difference, 0.05) << row.path;
    EXPECT_LE(row.difference, row.change_a + row.change_b + 1e-6);
  }
  for (const LayerDifference& row : compare_adapters(base, a, a)) EXPECT_EQ(row.difference, 0);
}

// The formulas of the DoRA paper (section 4.3, with the norm detached), computed in double for one linear layer.
TEST_P(Kinds, HaveTheGradientsOfTheirFormulas) {
  const int64_t rows = 5, in = 6, out = 4, r = 3;
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {rows, in});
  b.output(b.add("Gemm", {x, b.constant(random_tensor({out, in}, 1), "fc.weight"), b.constant(random_tensor({out}, 2))},
                 {{"transB", int64_t{1}}}, "/fc/Gemm"),
           "y");
  Adapter adapter = create_adapter(graph, {.kind = GetParam(), .rank = r, .alpha = 2});
  shake(adapter, 8);
  const Layer layer = match_layers(graph, adapter)[0];
  const Tensor w = layer_weights(graph, layer);
  name_layers(graph);
  prepare(graph, {.precision = Precision::fp32});
  const AppliedAdapter applied = apply_adapter(graph, adapter, {layer});
  const Tensor dy = random_tensor({rows, out}, 11);
  Builder more(graph);
  const ValueId loss = more.add("ReduceSum", {more.add("Mul", {graph.outputs()[0].value, more.constant(dy)})},
                                {{"keepdims", int64_t{0}}});
  std::vector<ValueId> wrt;
  for (const AdapterParameter& p : applied.parameters) wrt.push_back(p.value);
  std::vector<Graph::Output> outputs;
  for (const ValueId id : differentiate(graph, loss, wrt)) outputs.push_back({id, fmt::format("{}", outputs.size())});
  graph.replace_outputs(outputs);
  const std::vector<Tensor> inputs = inputs_of(graph, 20);
  const std::vector<Tensor> got = interpret(graph, inputs);

  const AdapterLayer& mine = adapter.layers[0];
  const auto at = [](const Tensor& t, int64_t i, int64_t j) {
    return double{t.data<float>()[static_cast<size_t>(i * t.shape()[1] + j)]};
  };
  const double s = adapter.scale(mine);
  std::vector<double> gain(static_cast<size_t>(out), 1), norm(static_cast<size_t>(out), 1);
  const auto v_at = [&](int64_t o, int64_t i) {
    double v = at(w, o, i);
    for (int64_t k = 0; k < r; ++k) v += s * at(mine.b, o, k) * at(mine.a, k, i);
    return v;
  };
  if (GetParam() == AdapterKind::dora) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) sum += v_at(o, i) * v_at(o, i);
      norm[static_cast<size_t>(o)] = std::sqrt(sum);
      gain[static_cast<size_t>(o)] = double{mine.magnitude.data<float>()[static_cast<size_t>(o)]} / std::sqrt(sum);
    }
  }
  Tensor da = Tensor::zeros(DType::f64, {r, in}), db = Tensor::zeros(DType::f64, {out, r}),
         dm = Tensor::zeros(DType::f64, {out});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t o = 0; o < out; ++o) {
      const double g = gain[static_cast<size_t>(o)] * at(dy, row, o);
      for (int64_t k = 0; k < r; ++k) {
        double u = 0;
        for (int64_t i = 0; i < in; ++i) {
          u += at(inputs[0], row, i) * at(mine.a, k, i);
          da.data<double>()[static_cast<size_t>(k * in + i)] += s * g * at(mine.b, o, k) * at(inputs[0], row, i);
        }
        db.data<double>()[static_cast<size_t>(o * r + k)] += s * g * u;
      }
      double v = 0;
      for (int64_t i = 0; i < in; ++i) v += v_at(o, i) * at(inputs[0], row, i);
      dm.data<double>()[static_cast<size_t>(o)] += v * at(dy, row, o) / norm[static_cast<size_t>(o)];
    }
  }
  EXPECT_LE(distance(got[0], da), 1e-6);
  EXPECT_LE(distance(got[1], db), 1e-6);
  if (GetParam() == AdapterKind::dora) {
    EXPECT_LE(distance(got[2], dm), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, Kinds, ::testing::Values(AdapterKind::lora, AdapterKind::rslora, AdapterKind::dora),
                         [](const auto& of) { return std::string(name(of.param)); });

// What the nodes that renew a layer's norms compute from its factors.
Tensor renewed(const AdapterNorm& norm, const AdapterLayer& mine, NormForm form) {
  Graph update;
  update.opsets[""] = 26;
  Builder b(update);
  b.output(renewed_norm(b, norm, b.constant(mine.a), b.constant(mine.b), form), "norm");
  return interpret(update, {})[0];
}

AppliedAdapter applied_to(Graph graph, const Adapter& adapter, const std::vector<Layer>& layers) {
  name_layers(graph);
  prepare(graph, {.precision = Precision::fp32});
  return apply_adapter(graph, adapter, layers);
}

TEST(Norms, AreRenewedInBothForms) {
  const Graph base = every_layer();
  Adapter adapter = create_adapter(base, {.kind = AdapterKind::dora, .rank = 4, .alpha = 3});
  const std::vector<Layer> layers = match_layers(base, adapter);
  const AppliedAdapter applied = applied_to(base, adapter, layers);
  shake(adapter, 12);
  for (size_t i = 0; i < layers.size(); ++i) {
    const AdapterLayer& mine = adapter.layers[i];
    const Tensor expected = norm_of(layer_weights(base, layers[i]), layers[i], adapter, mine);  // in double
    const Tensor factored = renewed(applied.norms[i], mine, NormForm::factored),
                 exact = renewed(applied.norms[i], mine, NormForm::exact);
    EXPECT_LE(distance(factored, expected), 1e-6) << mine.path;
    EXPECT_LE(distance(exact, expected), 3e-7) << mine.path;
    EXPECT_LE(distance(exact, factored), 1e-6) << mine.path;
  }
}

// An adapter that takes nearly all of the weights away: what is left of the factored form's sum is rounding.
TEST(Norms, TheExactFormHoldsWhereTheAdapterCancelsTheWeights) {
  constexpr int64_t kOut = 6, kIn = 40;
  Graph base;
  base.opsets[""] = 26;
  Builder b(base);
  // W of rank 1: so A and B of rank 1 can take away all but a ten-thousandth of it.
  const Tensor column = random_tensor({kOut, 1}, 4), row = random_tensor({1, kIn}, 5);
  Tensor w(DType::f32, {kOut, kIn});
  for (size_t o = 0; o < kOut; ++o) {
    for (size_t i = 0; i < kIn; ++i) w.data<float>()[o * kIn + i] = column.data<float>()[o] * row.data<float>()[i];
  }
  b.output(b.add("Gemm", {b.input("x", DType::f32, {1, kIn}), b.constant(w, "fc.weight")}, {{"transB", int64_t{1}}},
                 "/fc/Gemm"),
           "y");
  Adapter adapter = create_adapter(base, {.kind = AdapterKind::dora, .rank = 1});
  const std::vector<Layer> layers = match_layers(base, adapter);
  const AppliedAdapter applied = applied_to(base, adapter, layers);
  AdapterLayer& mine = adapter.layers[0];
  mine.a = row;
  for (size_t o = 0; o < kOut; ++o) mine.b.data<float>()[o] = -0.9999f * column.data<float>()[o];
  const Tensor expected = norm_of(w, layers[0], adapter, mine);
  EXPECT_LE(distance(renewed(applied.norms[0], mine, NormForm::exact), expected), 1e-3);
  EXPECT_GE(distance(renewed(applied.norms[0], mine, NormForm::factored), expected), 0.1);
}

// Weights beside a model are the model's.
TEST(ModelHash, TellsExternalDataApart) {
  const TempFolder folder;
  Graph g;
  g.opsets[""] = 17;
  Builder b(g);
  const ValueId x = b.input("x", DType::f32, {1, 32});
  b.output(b.add("MatMul", {x, b.constant(random_tensor({32, 32}, 1), "w")}), "y");
  const std::filesystem::path file = folder / "m.onnx", data = folder / "m.onnx.data";
  save_onnx(g, file, {.external_data = true});
  EXPECT_EQ(files_of(parse_model_name(file)), (std::vector<std::filesystem::path>{file, data}));
  const uint64_t before = model_hash(file);
  EXPECT_EQ(model_hash(file), before);
  std::fstream(data, std::ios::in | std::ios::out | std::ios::binary).write("\1", 1);
  EXPECT_NE(model_hash(file), before);
}

TEST(Sizes, FitTheirBudget) {
  const Graph base = every_layer();
  int64_t before = 0;
  for (const int64_t bytes : {60, 200, 700, 5000}) {
    for (const AdapterKind kind : {AdapterKind::lora, AdapterKind::dora}) {
      AdapterPlan plan;
      const Adapter adapter = create_adapter(base, {.kind = kind, .max_bytes = bytes, .stored = DType::f16}, &plan);
      EXPECT_LE(adapter.bytes(), bytes);
      if (kind == AdapterKind::lora) {
        EXPECT_GE(adapter.bytes(), before);
        before = adapter.bytes();
      }
      ASSERT_EQ(plan.rows.size(), 9u);
      for (const AdapterPlan::Row& row : plan.rows) EXPECT_EQ(row.rank == 0, !row.why_not.empty()) << row.path;
    }
  }
  const std::string refused = error_of([&] { create_adapter(base, {.kind = AdapterKind::lora, .max_bytes = 10}); });
  EXPECT_NE(refused.find("smallest size that works is 48 bytes"), std::string::npos) << refused;
}

TEST(Sizes, GoWhereTheWeightsHaveDirections) {
  // Two layers of one shape: one of rank 1, the other with all directions alike.
  Graph g;
  g.opsets[""] = 26;
  Builder b(g);
  Tensor thin = Tensor::zeros(DType::f32, {16, 16}), full = random_tensor({16, 16}, 4);
  for (int64_t i = 0; i < 256; ++i)
    thin.data<float>()[static_cast<size_t>(i)] = static_cast<float>((i / 16 + 1) * (i % 16 + 1));
  ValueId v = b.input("x", DType::f32, {1, 16});
  v = b.add("MatMul", {v, b.constant(thin, "thin.weight")});
  b.output(b.add("MatMul", {v, b.constant(full, "full.weight")}), "y");
  const Adapter adapter = create_adapter(g, {.kind = AdapterKind::lora, .max_bytes = 4 * 32 * 6});
  ASSERT_EQ(adapter.layers.size(), 2u);
  EXPECT_EQ(adapter.layers[0].rank(), 1);
  EXPECT_EQ(adapter.layers[1].rank(), 5);
}

TEST(Refusals, NameWhatIsWrong) {
  const Graph base = every_layer();
  const auto refused = [&](const AdapterOptions& options) { return error_of([&] { create_adapter(base, options); }); };
  EXPECT_NE(refused({.target = "nothing.*", .rank = 1}).find("no layer's path matches"), std::string::npos);
  EXPECT_NE(refused({.target = "(", .rank = 1}).find("not a regular expression"), std::string::npos);
  EXPECT_NE(refused({.target = "depth", .rank = 1}).find("depthwise"), std::string::npos);
  EXPECT_NE(refused({.target = "net.fc", .rank = 0}).find("rank 0: expected 1"), std::string::npos);
  EXPECT_EQ(refused({.target = "net.fc", .rank = 40}), "");  // as in PEFT
  EXPECT_NE(refused({.target = "grouped", .rank = 3}).find("2 groups"), std::string::npos);
  Adapter adapter = create_adapter(base, {.target = "net.fc", .rank = 2});
  Graph other = every_layer(DType::f16);
  EXPECT_NE(error_of([&] { match_layers(other, adapter); }).find("another model"), std::string::npos);
  adapter.base_fingerprint.clear();
  EXPECT_EQ(error_of([&] { match_layers(other, adapter); }), "");
  adapter.layers[0].path = "net.gone";
  EXPECT_NE(error_of([&] { match_layers(other, adapter); }).find("no layer \"net.gone\""), std::string::npos);
  adapter.layers[0].path = "net.mix";
  EXPECT_NE(error_of([&] { match_layers(other, adapter); }).find("[9,6]"), std::string::npos);
  adapter = create_adapter(other, {.kind = AdapterKind::lora, .target = "net.fc", .rank = 2});
  for (float& x : adapter.layers[0].b.data<float>()) x = 1e9f;
  EXPECT_NE(error_of([&] { merge_adapters(other, {{&adapter}}); }).find("f16 cannot hold"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::testing
