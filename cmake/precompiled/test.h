// For tests.
#pragma once

#include <gtest/gtest.h>

#include "op.h"
