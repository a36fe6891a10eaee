// Checks the op table: compares every kernel of every op with the op's plain reference, on the op's own cases. Runs in
// the tests and as `sparkpilot ops check` on a user's machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

struct CheckResult {
  std::string op, case_name, kernel;
  enum Outcome { passed, failed, skipped } outcome = passed;
  double error = 0;  // relative L2 error against the reference
  double tolerance = 0;
  std::string message;  // why it failed or was skipped
};

// The inputs of a case, filled from a seed; absent ones are not present().
std::vector<Tensor> case_inputs(const OpCase& op_case, uint64_t seed);
// The case as a single node, outside any graph.
Node case_node(const OpDef& op, const OpCase& op_case);
// The case as a graph with the tensors of case_inputs(): constants of the case are constants, the others inputs "x0",
// "x1", ...
Graph case_graph(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors);
// A bit for each input that is not a constant of the case: kernels must prepare without its contents.
uint64_t variable_inputs(const OpCase& op_case);

// Runs all candidates of one op on one case: with all inputs as constants and with only the case's constants, each on
// one and on two threads. The reference (the last candidate) is compared with itself on one and on three threads, which
// must agree in every bit. If the op also has an expansion, that is compared with the reference (`kernel` is
// "expansion"). If it has only an expansion, the expansion run by the kernels that a plan would use is compared with
// the one run by references.
std::vector<CheckResult> check_case(const OpDef& op, const OpCase& op_case, uint64_t seed);

// Checks all cases of all current ops (those with kernels, or only with cases) whose name contains `filter`. An op
// without cases fails.
std::vector<CheckResult> check_ops(const std::string& filter, uint64_t seed);

// sqrt(sum (a-b)^2 / sum b^2). Equal infinities, and NaNs at the same place, count as equal; any others as infinite
// error. Both tensors must have the same shape and dtype.
double relative_l2(const Tensor& got, const Tensor& expected);

// The tolerance for the relative L2 error when results of this dtype are computed in another order.
double default_tolerance(DType dtype);

}  // namespace sparkpilot
