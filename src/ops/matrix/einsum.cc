// Einsum, expanded to Transpose, Reshape, ReduceSum, Mul and MatMul: operands are contracted in pairs from the left.
#include <algorithm>
#include <map>

#include "ops/matrix/einsum_equation.h"
#include "ops/registry.h"

namespace sparkpilot::einsum_ops {
namespace {

// A value with one label per axis, all different.
struct Operand {
  ValueId value;
  std::string labels;
};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

struct Contraction {
  Builder& b;
  std::map<char, int64_t> sizes;  // of every label, 1 only where it is 1 in every operand

  int64_t size(const std::string& labels) const {
    int64_t count = 1;
    for (const char label : labels) count = Shape{count, sizes.at(label)}.elements();
    return count;
  }

  ValueId reshape(ValueId v, std::vector<int64_t> dims) {
    const Shape shape(dims);
    return b.shape(v) == shape ? v : b.add("Reshape", {v, b.ints(dims)}, {{"allowzero", int64_t{1}}});
  }

  // Takes the diagonal of axes with repeated labels.
  Operand diagonal(ValueId v, const std::string& labels) {
    std::string distinct;
    for (const char label : labels) {
      if (!has(distinct, label)) distinct += label;
    }
    if (distinct.size() == labels.size()) return {v, labels};
    const Shape shape = b.shape(v);
    std::vector<int64_t> dims, steps, picked{0};
    for (const char label : distinct) {
      int64_t step = 0;
      for (size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == label) step += shape.strides()[i];
      }
      dims.push_back(shape[static_cast<int>(labels.find(label))]);
      steps.push_back(step);
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      std::vector<int64_t> next;
      for (const int64_t base : picked) {
        for (int64_t k = 0; k < dims[i]; ++k) next.push_back(base + k * steps[i]);
      }
      picked = std::move(next);
    }
    const ValueId flat = reshape(v, {shape.elements()});
    return {reshape(b.add("Gather", {flat, b.ints(picked)}), dims), distinct};
  }

  // Removes axes of size 1 that are longer in other operands, where they are broadcast.
  Operand squeezed(const Operand& x) {
    std::string labels;
    std::vector<int64_t> dims;
    for (size_t i = 0; i < x.labels.size(); ++i) {
      const int64_t dim = b.shape(x.value)[static_cast<int>(i)];
      if (dim == 1 && sizes.at(x.labels[i]) != 1) continue;
      labels += x.labels[i];
      dims.push_back(dim);
    }
    return {reshape(x.value, dims), labels};
  }

  // Transposes to the axes in `labels`, in that order; sums over the others.
  Operand arranged(const Operand& x, const std::string& labels) {
    std::vector<int64_t> summed, order;
    std::string kept;
    for (size_t i = 0; i < x.labels.size(); ++i) {
      if (has(labels, x.labels[i])) kept += x.labels[i];
      else summed.push_back(static_cast<int64_t>(i));
    }
    ValueId v = x.value;
    if (!summed.empty()) v = b.add("ReduceSum", {v, b.ints(summed)}, {{"keepdims", int64_t{0}}});
    std::string wanted;
    for (const char label : labels) {
      if (has(kept, label)) wanted += label;
    }
    for (const char label : wanted) order.push_back(static_cast<int64_t>(kept.find(label)));
    if (!std::is_sorted(order.begin(), order.end())) v = b.add("Transpose", {v}, {{"perm", order}});
    return {v, wanted};
  }

  // The product of two operands, summed over the shared labels that are not needed later.
  Operand pair(const Operand& x, const Operand& y, const std::string& needed) {
    std::string batch, shared, left, right;
    for (const char label : x.labels) {
      if (!has(y.labels, label)) left += has(needed, label) ? std::string(1, label) : "";
      else (has(needed, label) ? batch : shared) += label;
    }
    for (const char label : y.labels) {
      if (!has(x.labels, label) && has(needed, label)) right += label;
    }
    const ValueId a = arranged(x, batch + left + shared).value, c = arranged(y, batch + shared + right).value;
    const int64_t m = size(left), n = size(right), k = size(shared), count = size(batch);
    std::vector<int64_t> dims;
    for (const char label : batch + left + right) dims.push_back(sizes.at(label));
    const ValueId product = shared.empty() ? b.add("Mul", {reshape(a, {count, m, 1}), reshape(c, {count, 1, n})})
                                           : b.add("MatMul", {reshape(a, {count, m, k}), reshape(c, {count, k, n})});
    return {reshape(product, dims), batch + left + right};
  }
};

DType working_dtype(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::i16: return DType::i32;
    case DType::u8:
    case DType::u16: return DType::u32;
    default: return dtype;
  }
}

std::vector<ValueId> expand(ExpandContext& e) {
  Builder& b = e.b;
  const DType dtype = b.dtype(e.in(0)), working = working_dtype(dtype);
  if (!contains(NumericTypes{}, dtype)) fail("input 0 is {}, expected a number type", name(dtype));
  std::vector<int> ranks;
  for (size_t i = 0; i < e.node.inputs.size(); ++i) {
    if (!e.has(i) || b.dtype(e.in(i)) != dtype) fail("input {} is not {} as the first", i, name(dtype));
    ranks.push_back(b.shape(e.in(i)).rank());
  }
  const EinsumEquation equation(e.node.attrs.text("equation", ""), ranks);
  Contraction contraction{b, {}};
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (int axis = 0; axis < ranks[i]; ++axis) {
      const char label = equation.inputs[i][static_cast<size_t>(axis)];
      const int64_t dim = b.shape(e.in(i))[axis];
      int64_t& known = contraction.sizes.emplace(label, dim).first->second;
      const bool twice = std::count(equation.inputs[i].begin(), equation.inputs[i].end(), label) > 1;
      if (known != dim && ((known != 1 && dim != 1) || twice))
        fail("axes of sizes {} and {} share a label", known, dim);
      if (known == 1) known = dim;
    }
  }
  std::vector<Operand> operands;
  for (size_t i = 0; i < ranks.size(); ++i) {
    ValueId v = e.in(i);
    if (working != dtype) v = b.add("Cast", {v}, {{"to", onnx_code(working)}});
    operands.push_back(contraction.squeezed(contraction.diagonal(v, equation.inputs[i])));
  }
  Operand result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = equation.output;
    for (size_t later = i + 1; later < operands.size(); ++later) needed += operands[later].labels;
    result = contraction.pair(result, operands[i], needed);
  }
  result = contraction.arranged(result, equation.output);
  ValueId out = result.value;
  if (working != dtype) out = b.add("Cast", {out}, {{"to", onnx_code(dtype)}});
  return {out == e.in(0) ? b.add("Identity", {out}) : out};
}

constexpr AttrSpec kAttrs[] = {{"equation", AttrType::text, true}};

const OpDef kOps[] = {{.name = "Einsum",
                       .doc = "Sums of products over the axes that an equation names.",
                       .since = 12,
                       .inputs = {1, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .expand = expand}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::einsum_ops
