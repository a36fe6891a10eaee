// For the programs that measure parts.
#pragma once

#include <CLI/CLI.hpp>

#include "op.h"
