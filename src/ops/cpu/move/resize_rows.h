// Resize's vector kernel: f32 data of which one axis or two neighbouring ones are resized, by constant operands.
#pragma once

#include <memory>

#include "ir/op.h"

namespace sparkpilot {

Verdict accepts_resize_rows(const Problem& p);
std::unique_ptr<KernelState> prepare_resize_rows(const Problem& p);
void run_resize_rows(const Call& c);

}  // namespace sparkpilot
