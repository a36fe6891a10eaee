// Every candidate kernel of an op on the op's own cases, timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "ir/op.h"

namespace sparkpilot {

struct OpBench {
  std::string op, case_name, kernel;
  std::string shape;  // of the first input
  double p50_us = 0;
  double flops = 0;  // of one run; a multiply-add is two
  double bytes = 0;  // read and written
};

// Times each candidate that accepts the case, in the table's order, alternating, about `ms_each` milliseconds each;
// `fast_only`: without the reference. Cases with outputs whose shape depends on data are timed with their allocation.
std::vector<OpBench> bench_case(const OpDef& op, const OpCase& op_case, int threads, double ms_each, uint64_t seed,
                                bool fast_only = false);
// The same for all of the op's own cases.
std::vector<OpBench> bench_op(const OpDef& op, int threads, double ms_each = 20, uint64_t seed = 1);

}  // namespace sparkpilot
