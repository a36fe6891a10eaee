// The op table: one function a file of ops, named in list.inc, gathered in registry.cc.
#pragma once

#include <span>

#include "ir/op.h"

namespace sparkpilot {

#define SPARKPILOT_OPS(file) std::span<const OpDef> file##_ops();
#include "ops/list.inc"
#undef SPARKPILOT_OPS

}  // namespace sparkpilot
