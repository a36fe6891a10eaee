// The harness that reads the op table: every candidate kernel of every op against its plain reference, on the op's own
// cases. It runs in the tests and as `sparkpilot ops check` on a user's machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

struct CheckResult {
  std::string op, case_name, kernel;
  enum Outcome { passed, failed, skipped } outcome = passed;
  double error = 0;  // relative L2 against the reference
  double tolerance = 0;
  std::string message;  // why it failed or was skipped
};

// Inputs of a case, filled from a seed; absent ones not present().
std::vector<Tensor> case_inputs(const OpCase& op_case, uint64_t seed);
// The case as a node of its own, outside any graph.
Node case_node(const OpDef& op, const OpCase& op_case);
// The case as a graph, on case_inputs(): what it gives as constants are constants, the others inputs "x0", "x1", ...
Graph case_graph(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors);
// Bits of the inputs that the case does not give as constants: kernels must do without their contents at prepare.
uint64_t variable_inputs(const OpCase& op_case);

// Runs all candidates of one op on one case, with all inputs as constants and with only those that the case marks, on
// one and on two threads. The reference (the last candidate) is itself run twice, on one and on
// three threads: the results must be the same bits. An op that also has an expansion is held to it (`kernel` is
// "expansion"); of one that has no kernels, the expansion by the kernels that a plan takes is held to the one by plain
// references.
std::vector<CheckResult> check_case(const OpDef& op, const OpCase& op_case, uint64_t seed);

// All cases of all current ops (those with kernels, or with cases alone) whose name contains `filter`. An op without
// cases fails.
std::vector<CheckResult> check_ops(const std::string& filter, uint64_t seed);

// sqrt(sum (a-b)^2 / sum b^2), where equal infinities and NaNs at the same place count as equal and others as infinite
// error. Both tensors have one shape and dtype.
double relative_l2(const Tensor& got, const Tensor& expected);

// The tolerance for relative L2 error when results of this dtype are computed in another order.
double default_tolerance(DType dtype);

}  // namespace sparkpilot
