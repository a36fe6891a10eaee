// A node as a line of text that stands for everything that decides which kernel is the fastest.
#pragma once

#include <string>

#include "ir/op.h"

namespace sparkpilot {

// "sparkpilot::Gemm f32[1,512] f32[512,64]* - -> f32[1,64] epilogue=relu transB=1 threads=2": the op, its inputs' types
// (constants with a star, absent ones as "-"), its outputs', its attributes by name, and thread_count(). Names of nodes
// and values and the contents of constants are no part of it. Printable ASCII, at most kLongestProblemKey characters:
// what is long or not printable stands there as a hash.
inline constexpr size_t kLongestProblemKey = 600;
std::string problem_key(const Problem& problem);

// The op has several kernels on the CPU besides its reference.
bool has_alternatives(const OpDef& op);

}  // namespace sparkpilot
