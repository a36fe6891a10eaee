// The distribution's ONNX schema (protobuf classes in namespace `onnx`). Only .cc files of this room include it.
#pragma once

#ifndef ONNX_ML
#define ONNX_ML
#endif
#include <onnx/onnx_pb.h>
