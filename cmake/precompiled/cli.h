// For the program.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "op.h"
