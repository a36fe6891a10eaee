// For rooms from ir on.
#pragma once

#include "ir/op.h"
#include "std.h"
