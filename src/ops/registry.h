// What a file of ops includes: the op record. It defines `std::span<const OpDef> <file>_ops()` and has a line in
// list.inc, which only registry.cc reads, so that a new line recompiles one file.
#pragma once

#include <span>

#include "ir/op.h"
