// sparkpilot::GemmGroup: several products by matrices, none of which needs another's result, in one node.
//
// Inputs: A, B and bias (or absent) of each product, then the operands of the epilogues. Output i is product i's.
// Attributes: `epilogue` holds the steps of all products in order (the grammar: ir/op.h; operands are inputs of this
// node), `steps` how many of them each product has; `transB` a 0 or 1 for each. Each product is as a sparkpilot::Gemm
// with those inputs.
#pragma once

#include <string>
#include <vector>

#include "ir/gemm_group.h"
#include "ir/op.h"
#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

struct GemmGroup {
  struct Product {
    bool transposed = false;
    std::vector<std::string> epilogue;
  };
  std::vector<Product> products;

  // Fails (user) where the attributes do not fit one another.
  static GemmGroup of(const Attributes& attrs);
  static size_t a(size_t i) { return 3 * i; }
  static size_t b(size_t i) { return 3 * i + 1; }
  static size_t bias(size_t i) { return 3 * i + 2; }
  size_t first_operand() const { return 3 * products.size(); }
  // Product i of the node.
  GemmArgs args(const Problem& problem, size_t i) const;
};

}  // namespace sparkpilot
