// To be included by every file that defines ops: the op record. Such a file defines `std::span<const OpDef>
// <file>_ops()` and has a line in list.inc; only registry.cc reads list.inc, so adding a line recompiles one file.
#pragma once

#include <span>

#include "ir/op.h"
