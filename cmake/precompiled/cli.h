// For the program.
#pragma once

#include "cli/command.h"
#include "op.h"
