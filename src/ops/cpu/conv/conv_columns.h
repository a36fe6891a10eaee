// Transposed convolutions of f32 images with channels last by the project's kernel: the products of a pixel with all
// taps of the kernel make columns, which are added up where they fall on the output. Weights may be known in a run
// only.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

Acceptance conv_columns_accepts(const Problem& p);
std::unique_ptr<KernelState> conv_columns_prepare(const Problem& p);
void conv_columns_run(const Call& call);

}  // namespace sparkpilot
