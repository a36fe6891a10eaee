// Truncated, corrupted and malicious models: each gives a one-line error that names the fault, or loads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "ir/infer.h"
#include "onnx/test_models.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

::testing::AssertionResult refused(const onnx::ModelProto& model, const std::string& text) {
  const std::string error = import_error(model);
  if (error.empty()) return ::testing::AssertionFailure() << "it loads";
  if (error.find(text) == std::string::npos) return ::testing::AssertionFailure() << "says: " << error;
  if (!error.starts_with("test.onnx: ")) return ::testing::AssertionFailure() << "names no file: " << error;
  return ::testing::AssertionSuccess();
}

// Loads and infers; an Error of kind user is fine. Anything else ends the test.
void load_or_refuse(const std::string& bytes) {
  try {
    Graph graph = import_bytes(bytes);
    infer(graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
  }
}

TEST(Hostile, TheRichModelItselfLoads) { EXPECT_EQ(import_error(rich_model()), ""); }

TEST(Hostile, EveryPrefix) {
  const std::string good = rich_model().SerializeAsString();
  for (size_t size = 0; size < good.size(); ++size) load_or_refuse(good.substr(0, size));
}

TEST(Hostile, FlippedBits) {
  const std::string good = rich_model().SerializeAsString();
  Random random(2024);
  for (int round = 0; round < 4000; ++round) {
    std::string bad = good;
    const int64_t flips = random.integer(1, 4);
    for (int64_t flip = 0; flip < flips; ++flip) {
      bad[static_cast<size_t>(random.integer(0, std::ssize(bad) - 1))] ^= static_cast<char>(1 << random.integer(0, 7));
    }
    load_or_refuse(bad);
  }
}

TEST(Hostile, NoModelAtAll) {
  EXPECT_THROW(import_bytes(""), Error);
  EXPECT_THROW(import_bytes("#!/bin/sh\nexit 1\n"), Error);
  EXPECT_THROW(import_bytes(std::string(1000, '\0')), Error);
  EXPECT_THROW(import_bytes(std::string("\x0b\x0c", 2)), Error);                                           // a group
  EXPECT_THROW(import_bytes(std::string("\x3a\xff\xff\xff\xff\x0f", 6)), Error);                           // 4 GiB long
  EXPECT_THROW(import_bytes(std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12)), Error);  // endless
  onnx::ModelProto model = add_model();
  model.clear_graph();
  EXPECT_TRUE(refused(model, "is no ONNX model"));
  const std::string twice = add_model().SerializeAsString() + add_model().SerializeAsString();
  EXPECT_THROW(import_bytes(twice), Error);
}

TEST(Hostile, FoldersAndEmptyFiles) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("sparkpilot_hostile_{}", ::getpid());
  fs::create_directories(folder / "model.onnx");
  std::ofstream(folder / "empty.onnx").flush();
  const auto error = [](const fs::path& path) -> std::string {
    try {
      load_onnx(path);
      return {};
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_NE(error(folder / "model.onnx").find("model.onnx: is a folder"), std::string::npos);
  EXPECT_NE(error(folder / "empty.onnx").find("empty.onnx: the file is empty"), std::string::npos);
  EXPECT_NE(error(folder / "absent.onnx").find("absent.onnx: No such file"), std::string::npos);
  EXPECT_NE(error("/dev/zero").find("not a regular file"), std::string::npos);
  fs::remove_all(folder);
}

TEST(Hostile, VersionsFromTheFutureAndThePast) {
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.mutable_opset_import(0)->set_version(29);
        return m;
      }(),
      "uses opset 29, the newest known is 28"));
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.mutable_opset_import(0)->set_version(0);
        return m;
      }(),
      "opset 0"));
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.mutable_opset_import(0)->set_version(INT64_MAX);
        return m;
      }(),
      "the newest known is 28"));
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.clear_opset_import();
        return m;
      }(),
      "which opset"));
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.set_ir_version(14);
        return m;
      }(),
      "IR version 14"));
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.set_ir_version(2);
        return m;
      }(),
      "IR version 2"));
  EXPECT_TRUE(refused(
      [] {
        auto m = add_model();
        m.clear_ir_version();
        return m;
      }(),
      "is no ONNX model"));
}

TEST(Hostile, UnknownOps) {
  onnx::ModelProto model = add_model();
  model.mutable_graph()->mutable_node(0)->set_op_type("Frobnicate");
  EXPECT_TRUE(refused(model, "op Frobnicate is not known (node \"add\")"));
  model.mutable_graph()->mutable_node(0)->set_domain("com.example");
  EXPECT_TRUE(refused(model, "op com.example::Frobnicate is not known (node \"add\")"));
  model.mutable_graph()->mutable_node(0)->set_op_type("QAttention");
  model.mutable_graph()->mutable_node(0)->set_domain("com.microsoft");  // only some of its ops are known
  EXPECT_TRUE(refused(model, "op com.microsoft::QAttention is not known (node \"add\")"));
  model.mutable_graph()->mutable_node(0)->set_op_type("Conv");
  model.mutable_graph()->mutable_node(0)->set_domain("sparkpilot");  // internal ops come only from passes
  EXPECT_TRUE(refused(model, "op sparkpilot::Conv is not known (node \"add\")"));
}

TEST(Hostile, Cycles) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "x", {2});
  add_node(graph, "Add", {"x", "b"}, {"a"}, "first");
  add_node(graph, "Add", {"a", "a"}, {"b"}, "second");
  add_output(graph, "b");
  EXPECT_TRUE(refused(model, "the graph has a cycle"));
  EXPECT_TRUE(refused(model, "(node \""));
  graph->mutable_node(0)->set_input(1, "a");
  EXPECT_TRUE(refused(model, "(node \"first\")"));
}

TEST(Hostile, LongChainsNeedNoStack) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "v0", {2});
  constexpr int kLength = 50'000;
  for (int i = kLength; i-- > 0;) {  // in reverse order
    add_node(graph, "Identity", {fmt::format("v{}", i)}, {fmt::format("v{}", i + 1)});
  }
  add_output(graph, fmt::format("v{}", kLength));
  const Graph read = import_proto(model);
  EXPECT_EQ(read.order().size(), static_cast<size_t>(kLength));
}

TEST(Hostile, AbsurdShapes) {
  const auto with_dims = [](std::vector<int64_t> dims) {
    onnx::ModelProto model = add_model();
    onnx::TensorProto* tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_dims();
    for (const int64_t dim : dims) tensor->add_dims(dim);
    return model;
  };
  EXPECT_TRUE(refused(with_dims({int64_t{1} << 40}), "tensor \"w\": "));
  EXPECT_TRUE(refused(with_dims({int64_t{1} << 32, int64_t{1} << 32}), "tensor \"w\": "));
  EXPECT_TRUE(refused(with_dims({int64_t{1} << 62, 4}), "tensor \"w\": "));
  EXPECT_TRUE(refused(with_dims({-2}), "negative"));
  EXPECT_TRUE(refused(with_dims({-1, -2}), "negative"));
  EXPECT_TRUE(refused(with_dims({int64_t{1} << 36}), "needs 274877906944 bytes, 8 are given"));
  EXPECT_TRUE(refused(with_dims({3}), "needs 12 bytes, 8 are given"));
  EXPECT_TRUE(refused(with_dims({1}), "needs 4 bytes, 8 are given"));
  EXPECT_TRUE(refused(with_dims({1, 1, 1, 1, 1, 1, 1, 1, 2}), "tensor \"w\": "));
  for (const int64_t dim : {int64_t{1} << 40, int64_t{-2}, INT64_MIN}) {
    onnx::ModelProto model = empty_model();
    add_input(model.mutable_graph(), "x", {2, 1});
    model.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_value(dim);
    add_output(model.mutable_graph(), "x");
    EXPECT_TRUE(refused(model, "input \"x\": ")) << dim;
  }
}

TEST(Hostile, TensorsWithTheWrongData) {
  const auto with = [](auto change) {
    onnx::ModelProto model = add_model();
    change(*model.mutable_graph()->mutable_initializer(0));
    return model;
  };
  EXPECT_TRUE(refused(with([](auto& t) { t.clear_raw_data(); }), "needs 2 values, 0 are given"));
  EXPECT_TRUE(refused(with([](auto& t) { t.clear_raw_data(), t.add_int64_data(1), t.add_int64_data(2); }),
                      "needs 2 values, 0 are given"));
  EXPECT_TRUE(refused(with([](auto& t) { t.set_data_type(0); }), "is no type"));
  EXPECT_TRUE(refused(with([](auto& t) { t.set_data_type(-7); }), "is no type"));
  EXPECT_TRUE(refused(with([](auto& t) { t.set_data_type(99); }), "is not known"));
  EXPECT_TRUE(refused(with([](auto& t) { t.set_data_type(onnx::TensorProto::STRING); }), "strings"));
  EXPECT_TRUE(refused(with([](auto& t) { t.set_data_type(onnx::TensorProto::COMPLEX64); }), "complex"));
  EXPECT_TRUE(refused(with([](auto& t) { t.mutable_segment()->set_begin(0); }), "segments"));
  EXPECT_TRUE(refused(with([](auto& t) { t.clear_name(); }), "has no name"));
  EXPECT_TRUE(refused(with([](auto& t) { t.set_data_location(onnx::TensorProto::EXTERNAL); }), "external data"));
}

TEST(Hostile, SparseTensorsStaySmall) {
  const auto with = [](int64_t dim, int64_t index) {
    onnx::ModelProto model = add_model();
    auto* sparse = model.mutable_graph()->add_sparse_initializer();
    sparse->add_dims(dim);
    set_floats(sparse->mutable_values(), "s", {1}, {1});
    sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    sparse->mutable_indices()->add_dims(1);
    sparse->mutable_indices()->add_int64_data(index);
    return model;
  };
  EXPECT_EQ(import_error(with(3, 2)), "");
  EXPECT_TRUE(refused(with(3, 3), "sparse index 3 is outside"));
  EXPECT_TRUE(refused(with(3, -1), "sparse index -1 is outside"));
  EXPECT_TRUE(refused(with(int64_t{1} << 35, 3), "too large"));
}

TEST(Hostile, NamesThatDoNotFit) {
  const auto with = [](auto change) {
    onnx::ModelProto model = add_model();
    change(*model.mutable_graph());
    return model;
  };
  EXPECT_TRUE(refused(with([](auto& g) { g.mutable_node(0)->set_input(0, "nobody"); }),
                      "reads \"nobody\", which no node before it makes (node \"add\")"));
  EXPECT_TRUE(refused(with([](auto& g) { g.mutable_output(0)->set_name("nobody"); }), "output \"nobody\": no node"));
  EXPECT_TRUE(
      refused(with([](auto& g) { g.mutable_node(0)->set_output(0, "w"), g.mutable_node(0)->set_input(1, "x"); }),
              "\"w\" is given twice"));
  EXPECT_TRUE(refused(with([](auto& g) { add_node(&g, "Add", {"x", "w"}, {"y"}, "again"); }), "both make \"y\""));
  EXPECT_TRUE(refused(with([](auto& g) { add_input(&g, "x", {2}); }), "\"x\" is given twice"));
  EXPECT_TRUE(refused(with([](auto& g) { add_floats(&g, "w", {1}, {1}); }), "\"w\" is given twice"));
  EXPECT_TRUE(refused(with([](auto& g) { add_output(&g, "y"); }), "\"y\" is listed twice"));
  EXPECT_TRUE(refused(with([](auto& g) { g.clear_output(); }), "has no outputs"));
  EXPECT_TRUE(refused(with([](auto& g) { g.mutable_node(0)->clear_op_type(); }), "names no op"));
  EXPECT_TRUE(
      refused(with([](auto& g) { g.mutable_node(0)->set_name("a\n\x1b[2Jb"), g.mutable_node(0)->set_input(0, "\r"); }),
              "reads \"\\x0d\", which no node before it makes (node \"a\\x0a\\x1b[2Jb\")"));
}

TEST(Hostile, SchemasAreHeld) {
  const auto with = [](auto change) {
    onnx::ModelProto model = add_model();
    change(*model.mutable_graph()->mutable_node(0));
    return model;
  };
  EXPECT_TRUE(refused(with([](auto& n) { n.clear_input(); }), "(node \"add\")"));
  EXPECT_TRUE(refused(with([](auto& n) { n.add_input("x"); }), "3 inputs given"));
  EXPECT_TRUE(refused(with([](auto& n) { n.add_output("z"); }), "2 outputs asked for"));
  EXPECT_TRUE(refused(with([](auto& n) { add_int(&n, "color", 3); }), "has no attribute color"));
  EXPECT_TRUE(refused(with([](auto& n) { add_int(&n, "channels_last", 1); }), "has no attribute channels_last"));
  EXPECT_TRUE(refused(with([](auto& n) { add_int(&n, "a", 3), add_int(&n, "a", 3); }), "attribute a is given twice"));
  EXPECT_TRUE(refused(with([](auto& n) { n.add_attribute()->set_name("a"); }), "neither type nor value"));
  EXPECT_TRUE(refused(with([](auto& n) { add_attribute(&n, "a", onnx::AttributeProto::TENSOR); }), "holds no tensor"));
  EXPECT_TRUE(refused(with([](auto& n) { add_body(&n, "a"); }), "has no attribute a"));
  EXPECT_TRUE(refused(with([](auto& n) { add_attribute(&n, "a", onnx::AttributeProto::TYPE_PROTO); }), "TYPE_PROTO"));
  EXPECT_TRUE(refused(with([](auto& n) { n.add_attribute()->set_i(1); }), "has no name"));
  EXPECT_TRUE(refused(with([](auto& n) { add_attribute(&n, "a", onnx::AttributeProto::INT)->set_ref_attr_name("b"); }),
                      "outside of a function"));
  onnx::ModelProto branch = rich_model();
  for (onnx::NodeProto& node : *branch.mutable_graph()->mutable_node()) {
    if (node.op_type() == "If") add_int(&node, "captures", 1'000'000);  // the runtime's own attribute
  }
  EXPECT_TRUE(refused(branch, "has no attribute captures (node \"if\")"));
  branch = rich_model();
  for (onnx::NodeProto& node : *branch.mutable_graph()->mutable_node()) {
    if (node.op_type() == "If") node.mutable_attribute(0)->clear_g();
  }
  EXPECT_TRUE(refused(branch, "attribute then_branch holds no graph (node \"if\")"));
  onnx::ModelProto model = add_model();
  model.mutable_graph()->mutable_node(0)->set_op_type("Softmax");
  model.mutable_graph()->mutable_node(0)->mutable_input()->RemoveLast();
  add_attribute(model.mutable_graph()->mutable_node(0), "axis", onnx::AttributeProto::FLOAT)->set_f(1);
  EXPECT_TRUE(refused(model, "attribute axis is float, expected int"));
}

TEST(Hostile, OnlyPlainTensors) {
  onnx::ModelProto model = add_model();
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type();
  type->mutable_sequence_type();
  EXPECT_TRUE(refused(model, "input \"x\": sequences"));
  type->mutable_optional_type();
  EXPECT_TRUE(refused(model, "input \"x\": optional"));
  type->mutable_map_type();
  EXPECT_TRUE(refused(model, "input \"x\": maps"));
  type->mutable_sparse_tensor_type();
  EXPECT_TRUE(refused(model, "input \"x\": only dense"));
  type->mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  EXPECT_TRUE(refused(model, "strings"));
  type->mutable_tensor_type()->clear_elem_type();
  EXPECT_TRUE(refused(model, "no element type"));
}

TEST(Hostile, DeepNesting) {
  // Nested bodies, written from the inside out, because protobuf's own limit is 100.
  std::string inner;
  for (int level = 0; level < 300; ++level) {
    onnx::GraphProto graph;
    onnx::NodeProto* node = add_node(&graph, "If", {"cond"}, {fmt::format("o{}", level)});
    for (const char* name : {"then_branch", "else_branch"}) {
      onnx::AttributeProto* attribute = add_attribute(node, name, onnx::AttributeProto::GRAPH);
      if (level == 0) add_output(attribute->mutable_g(), "cond");
      else if (name[0] == 't') attribute->mutable_unknown_fields()->AddLengthDelimited(6, inner);
      else add_output(attribute->mutable_g(), "cond");
    }
    add_output(&graph, fmt::format("o{}", level));
    inner = graph.SerializeAsString();
  }
  onnx::ModelProto model = add_model();
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "cond", {}, onnx::TensorProto::BOOL);
  onnx::NodeProto* node = add_node(graph, "If", {"cond"}, {"deep"}, "top");
  add_attribute(node, "then_branch", onnx::AttributeProto::GRAPH)
      ->mutable_unknown_fields()
      ->AddLengthDelimited(6, inner);
  add_output(add_body(node, "else_branch"), "cond");
  EXPECT_TRUE(refused(model, "nested deeper than"));

  // Nested types.
  onnx::ModelProto nested = add_model();
  onnx::TypeProto* type = nested.mutable_graph()->mutable_input(0)->mutable_type();
  for (int level = 0; level < 1000; ++level) type = type->mutable_sequence_type()->mutable_elem_type();
  EXPECT_TRUE(refused(nested, "malformed"));
}

}  // namespace
}  // namespace sparkpilot
