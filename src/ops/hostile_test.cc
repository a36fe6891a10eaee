// Every op on its own cases, damaged: shapes, types, operand contents and attributes that no exporter writes. A node
// must compute or be refused with an Error; it must not crash, loop for long, or read out of bounds (which the
// sanitizer build detects).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ops/check.h"

namespace sparkpilot {
namespace {

constexpr int64_t kMaxElements = 1 << 16;  // larger results are not computed here

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}

  void apply(const OpDef& op, Node& node, std::vector<Tensor>& inputs) {
    for (int64_t count = random_.integer(1, 3); count > 0; --count) {
      const int64_t kind = random_.integer(0, 9);
      if (kind < 4 && !op.attributes.empty()) damage_attribute(op, node);
      else if (kind < 7 && !inputs.empty()) damage_shape(pick(inputs));
      else if (kind < 8 && !inputs.empty()) damage_values(pick(inputs));
      else if (kind < 9 && !inputs.empty()) damage_type(pick(inputs));
      else if (!inputs.empty()) remove_input(node, inputs);
    }
  }

 private:
  template <typename T>
  T& pick(std::vector<T>& from) {
    return from[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(from.size()) - 1))];
  }

  int64_t odd_integer() {
    constexpr int64_t kOdd[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                7,
                                -2,
                                -9,
                                64,
                                1 << 20,
                                int64_t{1} << 31,
                                int64_t{1} << 40,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()};
    return kOdd[random_.integer(0, std::size(kOdd) - 1)];
  }
  float odd_real() {
    constexpr float kOdd[] = {0,
                              1,
                              -1,
                              0.5f,
                              1e-30f,
                              1e30f,
                              -1e30f,
                              std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()};
    return kOdd[random_.integer(0, std::size(kOdd) - 1)];
  }

  void damage_attribute(const OpDef& op, Node& node) {
    const AttrSpec& spec =
        op.attributes[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(op.attributes.size()) - 1))];
    const auto length = static_cast<size_t>(random_.integer(0, 5));
    switch (spec.type) {
      case AttrType::integer: return node.attrs.set(spec.name, odd_integer());
      case AttrType::real: return node.attrs.set(spec.name, odd_real());
      case AttrType::text: return node.attrs.set(spec.name, std::string(random_.integer(0, 1) ? "" : "linear"));
      case AttrType::integers: {
        std::vector<int64_t> values(length);
        for (int64_t& v : values) v = odd_integer();
        return node.attrs.set(spec.name, values);
      }
      case AttrType::reals: {
        std::vector<float> values(length);
        for (float& v : values) v = odd_real();
        return node.attrs.set(spec.name, values);
      }
      case AttrType::texts: return node.attrs.set(spec.name, std::vector<std::string>(length, "Relu"));
      case AttrType::tensor:
      case AttrType::graph: return node.attrs.erase(spec.name);
    }
  }

  void damage_shape(Tensor& tensor) {
    if (!tensor.present()) return;
    std::vector<int64_t> dims(tensor.shape().begin(), tensor.shape().end());
    const int64_t kind = random_.integer(0, 3);
    if (kind == 0 && dims.size() < 8)
      dims.insert(dims.begin() + random_.integer(0, static_cast<int64_t>(dims.size())), 1);
    else if (dims.empty()) return;
    else if (kind == 1) dims.erase(dims.begin() + random_.integer(0, static_cast<int64_t>(dims.size()) - 1));
    else pick(dims) = random_.integer(0, 9);
    const Tensor old = tensor;
    tensor = Tensor::zeros(old.dtype(), Shape(dims));
    for (int64_t i = 0; i < tensor.elements() && old.elements() > 0; ++i) {
      store_element(old.dtype(), tensor.raw(), i, load_element(old.dtype(), old.raw(), i % old.elements()));
    }
  }

  void damage_values(Tensor& tensor) {
    if (!tensor.present() || tensor.elements() == 0) return;
    tensor = tensor.clone();
    const int64_t at = random_.integer(0, tensor.elements() - 1);
    const double value =
        is_float(tensor.dtype()) ? static_cast<double>(odd_real()) : static_cast<double>(odd_integer());
    store_element(tensor.dtype(), tensor.raw(), at, value);
  }

  void damage_type(Tensor& tensor) {
    if (!tensor.present()) return;
    const auto dtype = static_cast<DType>(random_.integer(1, kDTypeCount - 1));
    if (bits(dtype) >= 8 && bits(tensor.dtype()) >= 8) tensor = convert(tensor, dtype);
  }

  void remove_input(Node& node, std::vector<Tensor>& inputs) {
    if (random_.integer(0, 1)) {
      const auto at = static_cast<size_t>(random_.integer(0, static_cast<int64_t>(inputs.size()) - 1));
      inputs[at] = Tensor();
      node.inputs[at] = ValueId{};
    } else {
      inputs.pop_back();
      node.inputs.pop_back();
    }
  }

  Random random_;
};

// Whether schema and inference accept the node, and its results are small enough to compute here.
bool is_runnable(const Node& node, const std::vector<Tensor>& inputs) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& tensor : inputs) ids.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
  const NodeId id = graph.add_node(*node.op, ids, node.attrs, static_cast<int>(node.outputs.size()), "damaged");
  check_schema(graph, id);
  if (!infer_node(graph, id) && !node.op->traits.dynamic) return false;
  int64_t elements = 0;
  for (const ValueId output : graph.node(id).outputs) {
    const auto& shape = graph.value(output).shape;
    elements += shape ? shape->elements() : 0;
  }
  return elements <= kMaxElements;
}

// Runs one damaged node with every kernel that accepts it; returns whether it was computed, not refused.
bool try_damaged(const OpDef& op, const OpCase& op_case, std::vector<Tensor> inputs, uint64_t seed) {
  Node node = case_node(op, op_case);
  bool computed = false;
  try {
    Damage(seed).apply(op, node, inputs);
    if (!is_runnable(node, inputs)) return false;
    for (const Kernel& kernel : op.cpu) {
      try {
        evaluate(node, inputs, kernel.name);
        computed = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::user) << kernel.name << ": " << error.what();
      }
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
  }
  return computed;
}

// The same for an op that has only an expansion.
bool try_damaged_expansion(const OpDef& op, const OpCase& op_case, std::vector<Tensor> inputs, uint64_t seed) {
  Node node = case_node(op, op_case);
  try {
    Damage(seed).apply(op, node, inputs);
    Graph graph;
    std::vector<ValueId> ids;
    for (const Tensor& tensor : inputs) ids.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
    check_schema(graph, graph.add_node(op, ids, node.attrs, static_cast<int>(node.outputs.size()), "damaged"));
    Builder builder(graph, "damaged");
    Node local = node;
    local.inputs = ids;
    ExpandContext context{builder, local};
    op.expand(context);
    for (int i = 0; i < graph.value_count(); ++i) {
      const auto& shape = graph.value(ValueId{i}).shape;
      if (shape && shape->elements() > kMaxElements) return false;
    }
    interpret_expansion(node, inputs);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
    return false;
  }
}

// If, Loop and Scan need runnable bodies, which only a session provides.
bool has_body(const OpDef& op) {
  return std::any_of(op.attributes.begin(), op.attributes.end(),
                     [](const AttrSpec& spec) { return spec.type == AttrType::graph; });
}

TEST(HostileNodes, AreComputedOrRefused) {
  const ThreadScope one(1);
  int computed = 0, refused = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->cases || has_body(*op)) continue;
    const auto attempt = op->cpu.empty() ? try_damaged_expansion : try_damaged;
    // --gtest_random_seed=N gives other damage.
    uint64_t seed = 1 + 100'000 * static_cast<uint64_t>(GTEST_FLAG_GET(random_seed));
    for (const OpCase& op_case : op->cases()) {
      const std::vector<Tensor> inputs = case_inputs(op_case, seed);  // damage leaves them as they are
      for (int i = 0; i < 30; ++i, ++seed) {
        SCOPED_TRACE(qualified(*op) + " case " + op_case.name + " seed " + std::to_string(seed));
        (attempt(*op, op_case, inputs, seed) ? computed : refused) += 1;
      }
    }
  }
  EXPECT_GT(computed, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace sparkpilot
