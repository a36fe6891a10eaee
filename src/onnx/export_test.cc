#include "onnx/export.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/random.h"
#include "base/test_assets.h"
#include "ir/op.h"
#include "onnx/test_models.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

class Export : public ::testing::Test {
 protected:
  Export() { fs::create_directories(folder_); }
  ~Export() override { fs::remove_all(folder_); }
  const fs::path folder_ = fs::temp_directory_path() / fmt::format("sparkpilot_export_{}", ::getpid());
  const fs::path path_ = folder_ / "m.onnx";

  Graph round_trip(const Graph& graph, const ExportOptions& options = {}) {
    save_onnx(graph, path_, options);
    return load_onnx(path_);
  }
  std::string error_of(const Graph& graph, const ExportOptions& options = {}) {
    try {
      save_onnx(graph, path_, options);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }
};

// Random inputs for a graph, with open dimensions taken as 1.
std::vector<Tensor> random_inputs(const Graph& graph) {
  Random random(5);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    std::vector<int64_t> dims;
    for (const Dim& dim : *value.declared) dims.push_back(dim.size < 0 ? 1 : dim.size);
    inputs.push_back(Tensor::zeros(value.dtype, Shape(std::span<const int64_t>(dims))));
    for (int64_t i = 0; i < inputs.back().elements(); ++i) {
      store_element(value.dtype, inputs.back().raw(), i, random.uniform());
    }
  }
  return inputs;
}

void expect_same_results(const Graph& a, const Graph& b, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> x = interpret(a, inputs), y = interpret(b, inputs);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(a.outputs()[i].name, b.outputs()[i].name);
    ASSERT_EQ(x[i].dtype(), y[i].dtype());
    ASSERT_EQ(x[i].shape(), y[i].shape());
    EXPECT_EQ(std::memcmp(x[i].raw(), y[i].raw(), static_cast<size_t>(x[i].bytes())), 0);
  }
}

TEST_F(Export, RoundTrips) {
  onnx::ModelProto model = add_model();
  model.set_producer_name("me");
  auto* entry = model.add_metadata_props();
  entry->set_key("k");
  entry->set_value("v");
  const Graph graph = import_proto(model);
  const Graph back = round_trip(graph);
  EXPECT_EQ(back.metadata, graph.metadata);
  EXPECT_EQ(back.opsets.at(""), 21);
  EXPECT_EQ(back.producer, "me");
  EXPECT_EQ(back.value(back.outputs()[0].value).declared->at(0).size, 2);
  expect_same_results(graph, back, random_inputs(graph));
}

TEST_F(Export, ExternalDataIsBesideTheModel) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* proto = model.mutable_graph();
  add_input(proto, "x", {1000});
  add_floats(proto, "large", {1000}, std::vector<float>(1000, 2));
  add_floats(proto, "larger", {1, 1000}, std::vector<float>(1000, 3));
  add_floats(proto, "small", {1}, {4});
  add_node(proto, "Add", {"x", "large"}, {"a"});
  add_node(proto, "Add", {"a", "larger"}, {"b"});
  add_node(proto, "Add", {"b", "small"}, {"y"});
  add_output(proto, "y");
  const Graph graph = import_proto(model);
  const Graph back = round_trip(graph, {.external_data = true});
  EXPECT_EQ(fs::file_size(path_.string() + ".data"), 4032U + 4000U);
  EXPECT_LT(fs::file_size(path_), 1000U);
  expect_same_results(graph, back, random_inputs(graph));
}

TEST_F(Export, NamesAreMadeUnique) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{2});
  const ValueId w = graph.add_constant(Tensor::of<float>(Shape{2}, {1, 2}), "x");  // an input's name
  const OpDef* add = find_op("", "Add", 21);
  const ValueId a = graph.node(graph.add_node(*add, {x, w}, {}, 1, "n")).outputs[0];
  graph.value(a).name = "y";  // an output's name
  const ValueId b = graph.node(graph.add_node(*add, {a, a}, {}, 1, "n")).outputs[0];
  graph.add_output(b, "y");
  graph.add_output(b, "again");
  graph.add_output(w, "weights");
  graph.add_output(x, "x");
  const Graph back = round_trip(graph);
  expect_same_results(graph, back, random_inputs(graph));
}

TEST_F(Export, BodiesSeeWhatIsAroundThemAgain) {
  onnx::ModelProto model = add_model();
  onnx::GraphProto* proto = model.mutable_graph();
  add_input(proto, "cond", {}, onnx::TensorProto::BOOL);
  onnx::NodeProto* branch = add_node(proto, "If", {"cond"}, {"z"}, "if");
  onnx::GraphProto* then_body = add_body(branch, "then_branch");
  onnx::NodeProto* nested = add_node(then_body, "If", {"cond"}, {"t"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto* body = add_body(nested, name);
    add_node(body, "Mul", {"y", "w"}, {std::string("m_") + name});
    add_output(body, std::string("m_") + name);
  }
  add_output(then_body, "t");
  onnx::GraphProto* else_body = add_body(branch, "else_branch");
  add_output(else_body, "y");  // the output is itself a captured value
  add_output(proto, "z");
  const Graph graph = import_proto(model);
  const Graph back = round_trip(graph);
  for (const bool cond : {true, false}) {
    expect_same_results(graph, back, {Tensor::of<float>(Shape{2}, {3, 4}), Tensor::scalar(cond)});
  }
}

TEST_F(Export, OldOpsAreWrittenInNewOpsetsByTheirExpansion) {
  onnx::ModelProto model = empty_model(11);
  add_input(model.mutable_graph(), "x", {2, 3, 2});
  add_int(add_node(model.mutable_graph(), "Softmax", {"x"}, {"y"}), "axis", 1);
  add_output(model.mutable_graph(), "y");
  const Graph graph = import_proto(model);
  const Graph same = round_trip(graph), newer = round_trip(graph, {.opset = 21});
  EXPECT_EQ(same.opsets.at(""), 11);
  EXPECT_EQ(newer.opsets.at(""), 21);
  EXPECT_GT(newer.node_count(), 1);
  expect_same_results(graph, same, random_inputs(graph));
  expect_same_results(graph, newer, random_inputs(graph));
}

// Outside com.microsoft the attribute is the runtime's own.
TEST_F(Export, MicrosoftsPoolsKeepTheirLayout) {
  onnx::ModelProto model = empty_model(13);
  onnx::GraphProto* g = model.mutable_graph();
  add_input(g, "x", {1, 5, 4, 3}, onnx::TensorProto::UINT8);
  add_floats(g, "scale", {}, {0.5f});
  onnx::NodeProto* node = add_node(g, "QLinearGlobalAveragePool", {"x", "scale", "", "scale"}, {"y"}, "pool");
  node->set_domain("com.microsoft");
  add_int(node, "channels_last", 1);
  add_output(g, "y");
  const Graph graph = import_proto(model), back = round_trip(graph);
  const Node& again = back.node(back.order()[0]);
  EXPECT_EQ(qualified(*again.op), "com.microsoft::QLinearGlobalAveragePool");
  EXPECT_EQ(again.attrs.integer("channels_last", 0), 1);
  EXPECT_EQ(back.opsets.at("com.microsoft"), 1);
  expect_same_results(graph, back, random_inputs(graph));
  EXPECT_EQ(interpret(graph, random_inputs(graph))[0].shape(), (Shape{1, 1, 1, 3}));
}

TEST_F(Export, RefusesWhatOnnxCannotSay) {
  Graph graph = import_proto(add_model());
  EXPECT_NE(error_of(graph, {.opset = 99}).find("opset 99 cannot be written"), std::string::npos);
  EXPECT_NE(error_of(graph, {.opset = 27}), "");
  const ValueId state = graph.add_state(Tensor::ints({1}), "counter");
  graph.set_next(state, state);
  graph.add_output(state, "s");
  EXPECT_NE(error_of(graph).find("state \"counter\" has no form in ONNX"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_THROW(save_onnx(import_proto(add_model()), folder_ / "absent" / "m.onnx"), Error);
}

TEST_F(Export, RealModelsRoundTrip) {
  int done = 0;
  if (!fs::exists(assets_folder())) GTEST_SKIP() << assets_folder() << " is not there";
  for (const auto& entry : fs::recursive_directory_iterator(assets_folder())) {
    if (entry.path().extension() != ".onnx") continue;
    const Graph graph = load_onnx(entry.path());
    const Graph back = round_trip(graph);
    EXPECT_EQ(back.order().size(), graph.order().size()) << entry.path();
    ++done;
  }
  EXPECT_GE(done, 8);
}

}  // namespace
}  // namespace sparkpilot
