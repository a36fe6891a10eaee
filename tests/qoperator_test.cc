// com.microsoft's ops on bytes compared with ONNX Runtime's results: single ops, and a network that its quantizer
// wrote. The files are made by tests/reference/qoperator.py. A byte may be one step off if its exact value is a tie, to
// within rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "ir/interpret.h"
#include "onnx/import.h"
#include "ops/check.h"
#include "passes/pass.h"
#include "runtime/session.h"
#include "stack/wheel.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace qoperator_test {

namespace fs = std::filesystem;
using Named = std::map<std::string, Tensor>;

const fs::path kFolder = fs::path(SPARKPILOT_SOURCE_DIR) / "tests/reference/qoperator";

Named load_npz(const fs::path& file) {
  Named arrays;
  const stack::Wheel archive{InputFile(file)};
  for (const stack::Wheel::Member& member : archive.members()) {
    const std::string bytes = archive.text(member, 1 << 20);
    arrays[fs::path(member.name).stem()] = parse_npy(std::as_bytes(std::span(bytes)), member.name);
  }
  return arrays;
}

Named by_references(const Graph& graph, const Named& inputs) {
  std::vector<Tensor> tensors;
  for (const ValueId id : graph.inputs()) tensors.push_back(inputs.at(graph.value(id).name));
  const std::vector<Tensor> results = interpret(graph, tensors, nullptr, "reference");
  Named outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[graph.outputs()[i].name] = results[i];
  return outputs;
}

Named by_runtime(const Graph& graph, const Named& inputs, const PassOptions& passes) {
  Session session(graph, {.passes = passes});
  for (const auto& [name, tensor] : inputs) session.set_input(name, tensor.view());
  session.run();
  Named outputs;
  for (const TensorInfo& output : session.outputs()) {
    const ConstView view = session.output(output.name);
    Tensor copy(view.dtype, view.shape);
    std::copy_n(static_cast<const std::byte*>(view.data), view.bytes(), static_cast<std::byte*>(copy.raw()));
    outputs[output.name] = copy;
  }
  return outputs;
}

// At most one step off, and only in few elements.
void expect_same(const Named& got, const Named& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, want] : expected) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(got.contains(name));
    const Tensor& have = got.at(name);
    ASSERT_EQ(have.dtype(), want.dtype());
    ASSERT_EQ(have.shape(), want.shape());
    if (is_float(want.dtype())) {
      EXPECT_LT(relative_l2(have, want), 1e-6);
      continue;
    }
    int64_t off = 0;
    for (int64_t i = 0; i < want.elements(); ++i) {
      const double difference = load_element(want.dtype(), want.raw(), i) - load_element(have.dtype(), have.raw(), i);
      EXPECT_LE(std::abs(difference), 1) << "element " << i;
      off += difference != 0;
    }
    EXPECT_LE(off, 1 + want.elements() / 50) << "of " << want.elements();
  }
}

class QOperator : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name_ = GetParam();
  Graph graph_ = load_onnx(kFolder / (name_ + ".onnx"));
  Named inputs_ = load_npz(kFolder / (name_ + "_inputs.npz")), outputs_ = load_npz(kFolder / (name_ + "_outputs.npz"));
};

TEST_P(QOperator, ByTheInterpretersReferences) { expect_same(by_references(graph_, inputs_), outputs_); }
TEST_P(QOperator, InIntegers) { expect_same(by_runtime(graph_, inputs_, {}), outputs_); }
TEST_P(QOperator, InFloats) { expect_same(by_runtime(graph_, inputs_, {.off = {"int8"}}), outputs_); }

INSTANTIATE_TEST_SUITE_P(OnnxRuntime, QOperator, ::testing::Values("ops", "network"),
                         [](const auto& given) { return std::string(given.param); });

std::map<std::string, int> ops_of(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const NodeId id : graph.order()) ++counts[qualified(*graph.node(id).op)];
  return counts;
}

// Only the input and the product of two tensors, which no op on bytes computes, stay in floats.
TEST(QOperatorNetwork, RunsOnBytes) {
  std::map<std::string, int> ops = ops_of(optimised(load_onnx(kFolder / "network.onnx")));
  EXPECT_EQ(ops["QuantizeLinear"], 2);
  EXPECT_EQ(ops["DequantizeLinear"], 2);
  EXPECT_EQ(ops["Mul"], 1);
  EXPECT_EQ(ops["sparkpilot::QConv"], 13);
  EXPECT_EQ(ops["sparkpilot::QGemm"], 1);
  EXPECT_EQ(ops["sparkpilot::QAdd"], 2);
  EXPECT_EQ(ops["sparkpilot::QAveragePool"], 3);
  EXPECT_GE(ops["sparkpilot::ByteTable"], 2);  // Sigmoid, LeakyRelu
  EXPECT_EQ(ops["Concat"], 1);
  EXPECT_EQ(ops["Sigmoid"] + ops["LeakyRelu"] + ops["Add"] + ops["AveragePool"] + ops["GlobalAveragePool"], 0);
}

TEST(QOperatorOps, RunOnBytes) {
  std::map<std::string, int> ops = ops_of(optimised(load_onnx(kFolder / "ops.onnx")));
  EXPECT_EQ(ops["sparkpilot::QGemm"] + ops["sparkpilot::Gemm"], 6);
  EXPECT_GE(ops["sparkpilot::QGemm"], 4);
  EXPECT_GE(ops["sparkpilot::QAdd"], 1);  // a sum with a constant tensor may be left in floats
  EXPECT_EQ(ops["sparkpilot::QAveragePool"], 9);
  EXPECT_EQ(ops["AveragePool"] + ops["GlobalAveragePool"] + ops["Sigmoid"] + ops["LeakyRelu"], 0);
}

}  // namespace qoperator_test
}  // namespace sparkpilot
