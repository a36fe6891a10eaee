// Ops on a GPU that only move elements: each op says which strided parts it copies, the rest is the same for all.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace sparkpilot::cuda {

// A part of a node's input that goes to a part of an output; starts and strides in elements.
struct CopyPart {
  size_t input = 0, output = 0;
  int64_t from = 0, to = 0;
  std::vector<int64_t> sizes, from_strides, to_strides;  // strides also negative or 0
};
struct CopyParts {
  std::vector<CopyPart> parts;    // together all elements of the outputs, each once
  const char* why_not = nullptr;  // set if the parts are not known
};

Acceptance copy_accepts(const Problem& p, const CopyParts& parts);
std::unique_ptr<KernelState> copy_prepare(const Problem& p, const CopyParts& parts);
void copy_run(const Call& call);

// The kernel of an op whose parts `kParts` computes; it may rely on types that kernels take.
template <CopyParts (*kParts)(const Problem&)>
constexpr Kernel kStrided = {.name = "strided",
                             .accepts = [](const Problem& p) -> Acceptance { return copy_accepts(p, kParts(p)); },
                             .prepare = [](const Problem& p) { return copy_prepare(p, kParts(p)); },
                             .run = copy_run};

// Of views whose output has memory of its own.
extern const Kernel kView[1];

// Of Transpose, with the axes of the input in the order of the output: only transpositions of matrices.
Acceptance tiles_accept(const Problem& p, const std::vector<int>& permutation);
std::unique_ptr<KernelState> tiles_prepare(const Problem& p, const std::vector<int>& permutation);
void tiles_run(const Call& call);

// Of Pad, with a border for each axis, negative where it is cropped, and the mode as ONNX names it.
struct PadBorders {
  std::vector<int64_t> before, after;
  std::string mode;
  const char* why_not = nullptr;  // set if the borders are not known
};
Acceptance pad_accepts(const Problem& p, const PadBorders& borders);
std::unique_ptr<KernelState> pad_prepare(const Problem& p, const PadBorders& borders);
void pad_run(const Call& call);

}  // namespace sparkpilot::cuda
