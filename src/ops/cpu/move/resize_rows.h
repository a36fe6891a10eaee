// Resize's vector kernel: f32 data, one axis or two adjacent axes resized, constant operands.
#pragma once

#include <memory>

#include "ir/op.h"

namespace sparkpilot {

Acceptance accepts_resize_rows(const Problem& p);
std::unique_ptr<KernelState> prepare_resize_rows(const Problem& p);
void run_resize_rows(const Call& c);

}  // namespace sparkpilot
