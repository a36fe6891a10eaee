// Reading ONNX (sparkpilot/onnx.h), and the error for parts of the format that sparkpilot does not support.
#pragma once

#include "onnx/unsupported.h"
#include "sparkpilot/onnx.h"
