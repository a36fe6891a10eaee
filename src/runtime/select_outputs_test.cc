// Selected and sliced outputs: their types and openpilot's metadata. Their values are tested with the session.
#include <gtest/gtest.h>

#include "base/error.h"
#include "onnx/metadata.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

using Dims = std::vector<std::pair<int64_t, std::string>>;

// Two flat outputs, and metadata that describes the first.
Graph flat_model() {
  Graph g;
  Builder b(g, "flat");
  const ValueId x = g.add_input("x", DType::f32, Shape{1, 10});
  g.add_output(b.add("Relu", {x}), "outputs");
  g.add_output(b.add("Neg", {x}), "extra");
  g.metadata[std::string(kOutputSlicesKey)] =
      write_output_slices({{"plan", {0, 4, {}}}, {"lead", {4, 7, {}}}, {"pad", {-3, {}, {}}}});
  return g;
}

// An output that inference cannot type, since its input's size is open; the file declares its shape.
Graph open_model() {
  Graph g;
  Builder b(g, "open");
  const ValueId x = g.add_input("x", DType::f32, {{-1, "batch"}, {10, {}}});
  const NodeId relu = g.add_node(*find_op("", "Relu", 26), {x}, {}, 1);
  Value& y = g.value(g.node(relu).outputs[0]);
  y.dtype = DType::f32;
  y.declared = {{-1, "batch"}, {5, {}}, {10, {}}};
  g.add_output(g.node(relu).outputs[0], "y");
  return g;
}

struct Selected {
  OutputSlices heads;
  bool has_entry = false;
  std::string note;
};
Selected select(Graph graph, const std::vector<std::string>& wanted) {
  Selected selected;
  selected.note = select_outputs(graph, wanted);
  selected.has_entry = graph.metadata.count(std::string(kOutputSlicesKey)) > 0;
  selected.heads = output_slices(graph);
  return selected;
}

TEST(SelectOutputs, MovesSlicesWithTheRange) {
  const OutputSlices expected{{"lead", {1, 4, {}}}, {"pad", {4, 7, {}}}};
  for (const char* text : {"outputs[:, 3:]", "outputs[:, -7:10]", "outputs[0, 3:99]"}) {
    const Selected selected = select(flat_model(), {text, "extra"});
    EXPECT_EQ(selected.heads, expected) << text;
    EXPECT_NE(selected.note.find("2 of 3 heads"), std::string::npos) << selected.note;
  }
}

TEST(SelectOutputs, KeepsSlicesThatStillFit) {
  for (const char* text : {"outputs", "outputs[:]", "outputs[0]", "outputs[:, 0:10]"}) {
    const Selected selected = select(flat_model(), {text});
    EXPECT_EQ(selected.heads.size(), 3u) << text;
    EXPECT_EQ(selected.note, "") << text;
  }
}

TEST(SelectOutputs, WhatTakesNothingIsRefused) {
  for (const char* text : {"outputs[:, 10:]", "outputs[:, 5:3]", "outputs[0, 12]", "outputs[3:]"}) {
    EXPECT_THROW(select(flat_model(), {text}), Error) << text;
  }
}

TEST(SelectOutputs, DropsSlicesThatWouldLie) {
  for (const char* text : {"extra", "outputs[:, ::2]", "outputs[:, 3]", "outputs[:, 1:3]"}) {
    const Selected selected = select(flat_model(), {text});
    EXPECT_FALSE(selected.has_entry) << text;
    EXPECT_NE(selected.note.find("dropped"), std::string::npos) << text;
  }
  Graph unreadable = flat_model();
  unreadable.metadata[std::string(kOutputSlicesKey)] = "no base64";
  EXPECT_FALSE(select(unreadable, {"outputs[:, 3:]"}).has_entry);
}

TEST(SelectOutputs, KeepsWhatTheFileSaysOfOpenShapes) {
  const auto declared = [](const std::string& text) {
    Graph graph = open_model();
    select_outputs(graph, std::vector<std::string>{text});
    const Value& value = graph.value(graph.outputs()[0].value);
    EXPECT_EQ(value.dtype, DType::f32) << text;
    Dims dims;
    if (value.declared) {
      for (const Dim& dim : *value.declared) dims.push_back({dim.size, dim.symbol});
    }
    return dims;
  };
  EXPECT_EQ(declared("y[:, -1, :]"), (Dims{{-1, "batch"}, {10, ""}}));
  EXPECT_EQ(declared("y[1:, 1:4:2]"), (Dims{{-1, ""}, {2, ""}, {10, ""}}));
  EXPECT_EQ(declared("y[0]"), (Dims{{5, ""}, {10, ""}}));
}

}  // namespace
}  // namespace sparkpilot
