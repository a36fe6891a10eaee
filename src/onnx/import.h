// Reading ONNX (sparkpilot/onnx.h), and the error for what the format holds and this project does not do.
#pragma once

#include "onnx/unsupported.h"
#include "sparkpilot/onnx.h"
