// A line of text that identifies everything about a node that decides which kernel is the fastest.
#pragma once

#include <string>

#include "ir/op.h"

namespace sparkpilot {

// "sparkpilot::Gemm f32[1,512] f32[512,64]* - -> f32[1,64] epilogue=relu transB=1 threads=2": the op, the types of its
// inputs (constants with a star, absent ones as "-") and outputs, its attributes by name, and thread_count(), or, of a
// problem on a GPU, "on NVIDIA GB10". Names of nodes and values and the contents of constants are not part of it.
// Printable ASCII, at most kLongestProblemKey characters: parts that are long or not printable are replaced by a hash.
inline constexpr size_t kLongestProblemKey = 600;
std::string problem_key(const Problem& problem);

// Whether there is anything to choose for some nodes of the op: on the CPU several kernels besides the reference, on a
// GPU variants of a kernel.
bool has_alternatives(const OpDef& op, Device device);

}  // namespace sparkpilot
