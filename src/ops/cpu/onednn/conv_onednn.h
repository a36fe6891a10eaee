// Convolution by oneDNN, for ONNX's Conv and ConvTranspose and the internal Conv with its epilogue.
#pragma once

#include "ops/cpu/onednn/onednn.h"

namespace sparkpilot {

// Inputs are X, W and bias as in ONNX, with images in either layout. Constant weights are packed in `prepare` and may
// be stored in 16 bits; others are converted to the primitive's format in each run.
Acceptance conv_onednn_accepts(const Problem& p);
std::unique_ptr<KernelState> conv_onednn_prepare(const Problem& p);

// Inputs are the image and the gradient of the convolution's output, channels first; f32. Other numbers of threads give
// other bits.
Acceptance conv_weight_gradient_onednn_accepts(const Problem& p);
std::unique_ptr<KernelState> conv_weight_gradient_onednn_prepare(const Problem& p);

Acceptance conv_transpose_onednn_accepts(const Problem& p);
std::unique_ptr<KernelState> conv_transpose_onednn_prepare(const Problem& p);

}  // namespace sparkpilot
