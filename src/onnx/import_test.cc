#include "onnx/import.h"
#include "onnx/external_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/test_assets.h"
#include "ir/op.h"
#include "onnx/tensor_proto.h"
#include "onnx/test_models.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

Tensor floats(std::initializer_list<float> values) {
  return Tensor::of<float>(Shape{static_cast<int64_t>(values.size())}, values);
}

TEST(Import, KeepsWhatTheFileSays) {
  onnx::ModelProto model = add_model();
  model.set_producer_name("torch");
  model.set_producer_version("2.5");
  auto* entry = model.add_metadata_props();
  entry->set_key("k");
  entry->set_value("v");
  const Graph graph = import_proto(model);
  EXPECT_EQ(graph.name, "test");
  EXPECT_EQ(graph.producer, "torch 2.5");
  EXPECT_EQ(graph.opsets.at(""), 21);
  EXPECT_EQ(graph.metadata.at("k"), "v");
  EXPECT_EQ(run_floats(graph, {floats({10, 20})}), (Floats{11, 22}));
}

TEST(Import, DynamicDimensionsKeepTheirNames) {
  onnx::ModelProto model = empty_model();
  add_input(model.mutable_graph(), "x", {-1, 3});
  add_node(model.mutable_graph(), "Identity", {"x"}, {"y"});
  add_output(model.mutable_graph(), "y");
  const Graph graph = import_proto(model);
  const Value& x = graph.value(graph.inputs()[0]);
  EXPECT_FALSE(x.shape.has_value());
  EXPECT_EQ(x.declared->at(0).symbol, "batch");
  EXPECT_EQ(x.declared->at(0).size, -1);
  EXPECT_EQ(x.declared->at(1).size, 3);
}

// Some exporters write an open size this way.
TEST(Import, MinusOneIsAnOpenDimension) {
  onnx::ModelProto model = add_model();
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  type->mutable_shape()->mutable_dim(0)->set_dim_value(-1);
  const Graph graph = import_proto(model);
  EXPECT_EQ(graph.value(graph.inputs()[0]).declared->at(0).size, -1);
  EXPECT_EQ(run_floats(graph, {floats({10, 20})}), (Floats{11, 22}));
}

TEST(Import, InitializersAmongTheInputsAreConstants) {
  onnx::ModelProto model = add_model();
  add_input(model.mutable_graph(), "w", {2});
  const Graph graph = import_proto(model);
  EXPECT_EQ(graph.inputs().size(), 1U);
  EXPECT_EQ(run_floats(graph, {floats({10, 20})}), (Floats{11, 22}));
}

TEST(Import, ReadsEveryWayToWriteATensor) {
  const auto read = [](auto fill) {
    onnx::TensorProto proto;
    fill(proto);
    onnx::ModelProto model = empty_model();
    *model.mutable_graph()->add_initializer() = proto;
    model.mutable_graph()->mutable_initializer(0)->set_name("w");
    add_output(model.mutable_graph(), "w");
    return interpret(import_proto(model), {}).at(0);
  };
  const auto typed = [](onnx::TensorProto& t, int type, int64_t count) {
    t.set_data_type(type);
    t.add_dims(count);
  };
  const Tensor half = read([&](auto& t) { typed(t, onnx::TensorProto::FLOAT16, 1), t.add_int32_data(0x3c00); });
  EXPECT_EQ(load_element(half.dtype(), half.raw(), 0), 1.0);
  const Tensor wide = read([&](auto& t) { typed(t, onnx::TensorProto::UINT32, 1), t.add_uint64_data(4000000000U); });
  EXPECT_EQ(wide.data<uint32_t>()[0], 4000000000U);
  const Tensor small = read([&](auto& t) { typed(t, onnx::TensorProto::INT8, 1), t.add_int32_data(-3); });
  EXPECT_EQ(small.data<int8_t>()[0], -3);
  const Tensor real = read([&](auto& t) { typed(t, onnx::TensorProto::DOUBLE, 1), t.add_double_data(0.5); });
  EXPECT_EQ(real.data<double>()[0], 0.5);
  // Types newer than the distribution's schema: INT4 (22), two in a byte, and FLOAT8E4M3FN (17).
  const Tensor packed = read([&](auto& t) { typed(t, 22, 3), t.add_int32_data(0xf1), t.add_int32_data(0x07); });
  EXPECT_EQ(packed.dtype(), DType::i4);
  EXPECT_EQ(load_element(DType::i4, packed.raw(), 1), -1);
  EXPECT_EQ(load_element(DType::i4, packed.raw(), 2), 7);
  const Tensor fp8 = read([&](auto& t) { typed(t, 17, 2), t.set_raw_data(std::string("\x38\x40")); });
  EXPECT_EQ(load_element(fp8.dtype(), fp8.raw(), 1), 2.0);
  // A bool of 7 is true, and stored as 1.
  const Tensor truth =
      read([&](auto& t) { typed(t, onnx::TensorProto::BOOL, 2), t.set_raw_data(std::string("\7\0", 2)); });
  EXPECT_EQ(static_cast<const uint8_t*>(truth.raw())[0], 1);
  EXPECT_EQ(static_cast<const uint8_t*>(truth.raw())[1], 0);
}

TEST(Import, ConstantNodesBecomeConstants) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  set_floats(add_attribute(add_node(graph, "Constant", {}, {"a"}), "value", onnx::AttributeProto::TENSOR)->mutable_t(),
             "", {2}, {1, 2});
  add_attribute(add_node(graph, "Constant", {}, {"b"}), "value_float", onnx::AttributeProto::FLOAT)->set_f(3);
  auto* list = add_attribute(add_node(graph, "Constant", {}, {"c"}), "value_floats", onnx::AttributeProto::FLOATS);
  list->add_floats(4);
  list->add_floats(5);
  auto* sparse =
      add_attribute(add_node(graph, "Constant", {}, {"d"}), "sparse_value", onnx::AttributeProto::SPARSE_TENSOR)
          ->mutable_sparse_tensor();
  sparse->add_dims(2);
  set_floats(sparse->mutable_values(), "", {1}, {6});
  sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse->mutable_indices()->add_dims(1);
  sparse->mutable_indices()->add_int64_data(1);
  add_int(add_node(graph, "Constant", {}, {"e"}), "value_int", 7);
  auto* ints = add_attribute(add_node(graph, "Constant", {}, {"f"}), "value_ints", onnx::AttributeProto::INTS);
  ints->add_ints(8);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) add_output(graph, name);
  const Graph read = import_proto(model);
  EXPECT_EQ(read.node_count(), 0);
  const std::vector<Tensor> out = interpret(read, {});
  EXPECT_EQ(out[0].data<float>()[1], 2);
  EXPECT_EQ(out[1].shape().rank(), 0);
  EXPECT_EQ(out[1].data<float>()[0], 3);
  EXPECT_EQ(out[2].data<float>()[1], 5);
  EXPECT_EQ(out[3].data<float>()[0], 0);
  EXPECT_EQ(out[3].data<float>()[1], 6);
  EXPECT_EQ(out[4].data<int64_t>()[0], 7);
  EXPECT_EQ(out[5].shape(), Shape{1});
}

TEST(Import, NodesInAnyOrder) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "x", {2});
  add_node(graph, "Add", {"a", "x"}, {"y"});
  add_node(graph, "Add", {"x", "x"}, {"a"});
  add_output(graph, "y");
  EXPECT_EQ(run_floats(import_proto(model), {floats({1, 2})}), (Floats{3, 6}));
}

// then: w + x; else: x. Both capture the same list; w is a constant, x an input, s a value that only one of them uses.
TEST(Import, BodiesCaptureTheSameList) {
  onnx::ModelProto model = add_model();
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "cond", {}, onnx::TensorProto::BOOL);
  add_node(graph, "Add", {"x", "x"}, {"s"});
  onnx::NodeProto* branch = add_node(graph, "If", {"cond"}, {"z"}, "if");
  onnx::GraphProto* then_body = add_body(branch, "then_branch");
  add_node(then_body, "Add", {"s", "w"}, {"t"});
  add_output(then_body, "t");
  onnx::GraphProto* else_body = add_body(branch, "else_branch");
  add_node(else_body, "Add", {"x", "s"}, {"e"});
  add_output(else_body, "e");
  graph->clear_output();
  add_output(graph, "z");
  if (!find_op("", "If", 21)) GTEST_SKIP() << "the table has no If";
  const Graph read = import_proto(model);
  const Node* node = nullptr;
  for (int i = 0; i < read.node_count(); ++i) {
    if (read.node(NodeId{i}).op->name == "If") node = &read.node(NodeId{i});
  }
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->attrs.integer("captures"), 2);
  EXPECT_EQ(node->inputs.size(), 3U);
  EXPECT_EQ(node->attrs.graph("then_branch")->inputs().size(), 2U);
  EXPECT_EQ(node->attrs.graph("else_branch")->inputs().size(), 2U);
  EXPECT_EQ(run_floats(read, {floats({1, 2}), Tensor::scalar(true)}), (Floats{3, 6}));
  EXPECT_EQ(run_floats(read, {floats({1, 2}), Tensor::scalar(false)}), (Floats{3, 6}));
}

onnx::FunctionProto* add_function(onnx::ModelProto& model, const std::string& name, Names inputs, Names outputs) {
  onnx::FunctionProto* function = model.add_functions();
  function->set_domain("local");
  function->set_name(name);
  for (const auto& input : inputs) function->add_input(input);
  for (const auto& output : outputs) function->add_output(output);
  function->add_opset_import()->set_version(21);
  return function;
}

// twice(v) = v + v, called by four(v) = twice(twice(v)).
onnx::ModelProto nested_functions() {
  onnx::ModelProto model = empty_model();
  auto* domain = model.add_opset_import();
  domain->set_domain("local");
  domain->set_version(1);
  onnx::FunctionProto* four = add_function(model, "four", {"v"}, {"r"});
  add_node(four->mutable_node(), "twice", {"v"}, {"m"})->set_domain("local");
  add_node(four->mutable_node(), "twice", {"m"}, {"r"})->set_domain("local");
  onnx::FunctionProto* twice = add_function(model, "twice", {"v"}, {"r"});
  add_node(twice->mutable_node(), "Add", {"v", "v"}, {"r"});
  add_input(model.mutable_graph(), "x", {2});
  add_node(model.mutable_graph(), "four", {"x"}, {"y"}, "call")->set_domain("local");
  add_output(model.mutable_graph(), "y");
  return model;
}

TEST(Import, FunctionsAreInlined) {
  const Graph graph = import_proto(nested_functions());
  EXPECT_EQ(graph.node_count(), 2);
  EXPECT_EQ(run_floats(graph, {floats({1, 2})}), (Floats{4, 8}));
}

TEST(Import, FunctionsMayNotCallThemselves) {
  onnx::ModelProto model = nested_functions();
  add_node(model.mutable_functions(1)->mutable_node(), "four", {"v"}, {"w"}, "back")->set_domain("local");
  const std::string error = import_error(model);
  EXPECT_NE(error.find("function local::four calls itself"), std::string::npos) << error;
  EXPECT_NE(error.find("(node \"call/m/back\")"), std::string::npos) << error;
}

TEST(Import, FunctionsUseKnownOpsets) {
  for (const int64_t version : {int64_t{99}, (int64_t{1} << 32) + 21, int64_t{0}, int64_t{-5}}) {
    onnx::ModelProto model = nested_functions();
    model.mutable_functions(0)->mutable_opset_import(0)->set_version(version);
    const std::string error = import_error(model);
    EXPECT_NE(error.find(fmt::format("function local::four: ")), std::string::npos) << error;
    EXPECT_NE(error.find(std::to_string(version)), std::string::npos) << error;
  }
}

TEST(Import, FunctionsAreBounded) {
  // Each level calls the one below twice: 2^40 nodes.
  onnx::ModelProto model = empty_model();
  for (int level = 0; level < 40; ++level) {
    onnx::FunctionProto* function = add_function(model, "f" + std::to_string(level), {"v"}, {"r"});
    const std::string below = level == 0 ? "Identity" : "f" + std::to_string(level - 1);
    for (const auto& [in, out] : {std::pair("v", "m"), std::pair("m", "r")}) {
      onnx::NodeProto* node = add_node(function->mutable_node(), below, {in}, {out});
      if (level > 0) node->set_domain("local");
    }
  }
  add_input(model.mutable_graph(), "x", {2});
  add_node(model.mutable_graph(), "f39", {"x"}, {"y"})->set_domain("local");
  add_output(model.mutable_graph(), "y");
  EXPECT_NE(import_error(model).find("more than 250000 nodes"), std::string::npos) << import_error(model);
}

TEST(Import, FunctionsMayNotBlowUpNamesAndAttributes) {
  // A node with a long name, called often from the main graph.
  onnx::ModelProto model = empty_model();
  onnx::FunctionProto* function = add_function(model, "f", {"v"}, {"r"});
  add_node(function->mutable_node(), "Identity", {"v"}, {"r"}, std::string(1 << 20, 'n'));
  add_input(model.mutable_graph(), "x", {2});
  for (int i = 0; i < 100; ++i) {
    add_node(model.mutable_graph(), "f", {"x"}, {fmt::format("y{}", i)})->set_domain("local");
  }
  add_output(model.mutable_graph(), "y0");
  EXPECT_NE(import_error(model).find("functions grow beyond"), std::string::npos) << import_error(model);
}

TEST(Import, FunctionAttributesAreReferredTo) {
  onnx::ModelProto model = empty_model();
  onnx::FunctionProto* function = add_function(model, "normalised", {"v"}, {"r"});
  function->add_attribute("along");
  onnx::NodeProto* inner = add_node(function->mutable_node(), "Softmax", {"v"}, {"r"});
  add_attribute(inner, "axis", onnx::AttributeProto::INT)->set_ref_attr_name("along");
  // `attribute_proto` (field 11) is newer than the distribution's schema: a default for "along".
  onnx::AttributeProto fallback;
  fallback.set_name("along");
  fallback.set_type(onnx::AttributeProto::INT);
  fallback.set_i(1);
  function->mutable_unknown_fields()->AddLengthDelimited(11, fallback.SerializeAsString());
  onnx::GraphProto* graph = model.mutable_graph();
  add_input(graph, "x", {2, 1});
  onnx::NodeProto* call = add_node(graph, "normalised", {"x"}, {"y"});
  call->set_domain("local");
  add_output(graph, "y");
  const Tensor x = Tensor::of<float>(Shape{2, 1}, {3, 3});
  EXPECT_EQ(run_floats(import_proto(model), {x}), (Floats{1, 1}));
  add_int(call, "along", 0);
  EXPECT_EQ(run_floats(import_proto(model), {x}), (Floats{0.5, 0.5}));
  add_int(call, "other", 0);
  EXPECT_NE(import_error(model).find("function local::normalised has no attribute other"), std::string::npos);
}

TEST(Import, OverloadsAreToldApart) {
  onnx::ModelProto model = nested_functions();
  model.mutable_functions(0)->mutable_unknown_fields()->AddLengthDelimited(13, "big");
  EXPECT_NE(import_error(model).find("op local::four is not known"), std::string::npos);
  model.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->AddLengthDelimited(8, "big");
  EXPECT_EQ(import_error(model), "");
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("sparkpilot_external_{}", ::getpid());
    fs::create_directories(folder_ / "inner");
    write(folder_ / "inner" / "w.bin", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12));
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  // The error message, empty if there is no error; the file holds 4 bytes of padding, then [1, 2].
  std::string load(const std::string& location, const std::string& offset = "4", const std::string& length = "8") {
    onnx::ModelProto model = add_model();
    onnx::TensorProto* tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_raw_data();
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>("location", location), {"offset", offset}, {"length", length}}) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    write(folder_ / "model.onnx", model.SerializeAsString());
    try {
      const Graph graph = load_onnx(folder_ / "model.onnx");
      EXPECT_EQ(run_floats(graph, {floats({10, 20})}), (Floats{11, 22}));
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_NE(std::string(error.what()).find("model.onnx: tensor \"w\""), std::string::npos) << error.what();
      return error.what();
    }
  }

  fs::path folder_;
};

TEST_F(ExternalData, IsReadBesideTheModel) { EXPECT_EQ(load("inner/w.bin"), ""); }

// Wherever a model has tensors: what is found without loading is what loading reads.
TEST_F(ExternalData, IsFoundWithoutLoading) {
  EXPECT_EQ(load("inner/w.bin"), "");
  std::vector<fs::path> read;
  load_onnx(folder_ / "model.onnx", read);
  EXPECT_EQ(read, (std::vector<fs::path>{folder_ / "model.onnx", folder_ / "inner/w.bin"}));
  EXPECT_EQ(external_files(folder_ / "model.onnx"), std::vector<fs::path>{folder_ / "inner/w.bin"});
  onnx::ModelProto model;
  const auto name = [&](onnx::TensorProto* tensor, const char* location) {
    write(folder_ / location, "1234");
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* entry = tensor->add_external_data();
    entry->set_key("location");
    entry->set_value(location);
  };
  auto* attribute = model.mutable_graph()->add_node()->add_attribute();
  name(attribute->mutable_t(), "t");
  name(attribute->add_tensors(), "s");
  name(attribute->mutable_g()->add_initializer(), "g");
  name(attribute->add_graphs()->add_node()->add_attribute()->mutable_t(), "h");
  name(attribute->mutable_sparse_tensor()->mutable_values(), "v");
  name(model.add_functions()->add_node()->add_attribute()->mutable_t(), "f");
  name(model.mutable_graph()->add_sparse_initializer()->mutable_indices(), "i");
  name(model.mutable_graph()->add_initializer(), "t");
  write(folder_ / "all.onnx", model.SerializeAsString());
  std::vector<fs::path> all;
  for (const char* each : {"f", "g", "h", "i", "s", "t", "v"}) all.push_back(folder_ / each);
  EXPECT_EQ(external_files(folder_ / "all.onnx"), all);
  name(model.mutable_graph()->add_initializer(), "../outside");
  write(folder_ / "all.onnx", model.SerializeAsString());
  EXPECT_EQ(external_files(folder_ / "all.onnx"), all) << "nothing outside";
  EXPECT_EQ(external_files(folder_ / "inner/w.bin"), std::vector<fs::path>());
  EXPECT_EQ(external_files(folder_ / "absent"), std::vector<fs::path>());
}

// Bools become 0 and 1, what shares their bytes does not.
TEST_F(ExternalData, BoolsDoNotChangeWhatOthersRead) {
  write(folder_ / "inner" / "w.bin", std::string("\5\0\7\11", 4));
  for (const bool first : {true, false}) {
    onnx::ModelProto model = add_model();
    for (const bool boolean : {first, !first}) {
      onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
      tensor->set_name(boolean ? "flags" : "bytes");
      tensor->set_data_type(boolean ? onnx::TensorProto::BOOL : onnx::TensorProto::UINT8);
      tensor->add_dims(4);
      tensor->set_data_location(onnx::TensorProto::EXTERNAL);
      auto* entry = tensor->add_external_data();
      entry->set_key("location");
      entry->set_value("inner/w.bin");
      auto* output = model.mutable_graph()->add_output();
      output->set_name(tensor->name());
      output->mutable_type()->mutable_tensor_type()->set_elem_type(tensor->data_type());
    }
    write(folder_ / "model.onnx", model.SerializeAsString());
    const Graph graph = load_onnx(folder_ / "model.onnx");
    int found = 0;
    for (const auto& output : graph.outputs()) {
      const Tensor* constant = graph.constant(output.value);
      if (constant == nullptr) continue;
      const auto* bytes = static_cast<const uint8_t*>(constant->raw());
      const std::vector<int> read(bytes, bytes + 4);
      EXPECT_EQ(read,
                constant->dtype() == DType::boolean ? (std::vector<int>{1, 0, 1, 1}) : (std::vector<int>{5, 0, 7, 9}));
      ++found;
    }
    EXPECT_EQ(found, 2);
  }
}

TEST_F(ExternalData, MayNotLeaveTheFolder) {
  write(folder_.string() + ".bin", std::string(12, 'x'));
  EXPECT_NE(load("../" + folder_.filename().string() + ".bin"), "");
  EXPECT_NE(load("inner/../inner/w.bin"), "");
  EXPECT_NE(load((folder_ / "inner" / "w.bin").string()), "");
  EXPECT_NE(load(""), "");
  EXPECT_NE(load(std::string("inner/w.bin\0x", 13)), "");
  fs::create_symlink(folder_ / "inner" / "w.bin", folder_ / "link.bin");
  EXPECT_NE(load("link.bin"), "");
  fs::create_directory_symlink(folder_ / "inner", folder_ / "linked");
  EXPECT_NE(load("linked/w.bin"), "");
  EXPECT_NE(load("inner"), "");
  EXPECT_NE(load("absent.bin"), "");
  fs::create_hard_link(folder_ / "inner" / "w.bin", folder_ / "hard.bin");
  EXPECT_NE(load("hard.bin"), "");
  fs::remove(folder_.string() + ".bin");
}

TEST_F(ExternalData, OffsetAndLengthAreChecked) {
  EXPECT_NE(load("inner/w.bin", "5"), "");
  EXPECT_NE(load("inner/w.bin", "-4"), "");
  EXPECT_NE(load("inner/w.bin", "9223372036854775807"), "");
  EXPECT_NE(load("inner/w.bin", "99999999999999999999"), "");
  EXPECT_NE(load("inner/w.bin", "4x"), "");
  EXPECT_NE(load("inner/w.bin", "4", "4"), "");
}

TEST_F(ExternalData, AModelInMemoryHasNone) {
  load("inner/w.bin");
  const std::string bytes = read_file(folder_ / "model.onnx");
  EXPECT_THROW(import_bytes(bytes), Error);
}

TEST(Import, ReadsTheRealModels) {
  int read = 0;
  if (!fs::exists(assets_folder())) GTEST_SKIP() << assets_folder() << " is not there";
  for (const auto& entry : fs::recursive_directory_iterator(assets_folder())) {
    if (entry.path().extension() != ".onnx") continue;
    EXPECT_NO_THROW(load_onnx(entry.path()));
    ++read;
  }
  EXPECT_GE(read, 8);
}

}  // namespace
}  // namespace sparkpilot
