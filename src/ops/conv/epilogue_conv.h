// What sparkpilot::Conv and ScaledConv share: convolutions in either layout, with an epilogue.
#pragma once

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/vector/epilogue_store.h"

namespace sparkpilot {

inline bool has_channels_last(const Attributes& attrs) { return attrs.integer("channels_last", 0) != 0; }

inline ConvShape epilogue_conv_shape(const Problem& p) {
  return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, has_channels_last(p.attrs()));
}

// Of the references, whose workspace holds the weights as doubles, then the values before they are stored.
struct EpilogueConvState : KernelState {
  explicit EpilogueConvState(const Problem& p)
      : shape(epilogue_conv_shape(p)), epilogue(Epilogue::of(p, shape.out_channels)) {
    values_offset = (shape.weights() * static_cast<int64_t>(sizeof(double)) + 63) / 64 * 64;
    workspace = values_offset + epilogue_store_bytes(p.outputs[0].dtype, p.outputs[0].shape.elements());
  }
  double* weights(const Call& c) const { return reinterpret_cast<double*>(c.workspace); }
  float* values(const Call& c) const { return epilogue_values(c, c.workspace + values_offset); }
  void store(const Call& c, float* values) const {
    if (shape.channels_last) store_rows(c, epilogue, values, shape.batch * shape.window.out_size(), shape.out_channels);
    else store_planes(c, epilogue, values, shape.batch, shape.out_channels, shape.window.out_size());
  }

  ConvShape shape;
  Epilogue epilogue;
  int64_t values_offset = 0;
};

}  // namespace sparkpilot
