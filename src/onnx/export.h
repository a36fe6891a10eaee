// Writing ONNX.
#pragma once

#include "sparkpilot/onnx.h"
