// The way back from the output of a sliding window to its image, for the gradients of convolutions and pooling.
#pragma once

#include "ops/cpu/conv/pool_shape.h"
#include "ops/formula.h"

namespace sparkpilot {

// A window whose padding is a number of elements: attributes for Conv's weight gradient.
Attributes window_attributes(const KernelWindow& w, int64_t groups);
// The same for the ConvTranspose that maps what belongs to the windows to an image of the size that they were taken
// from.
Attributes transposed_attributes(const KernelWindow& w, int64_t groups);

// An image without what no window reaches at the end of each axis, which can be as long as a stride and more.
Term reached(Term image, const KernelWindow& w);

// The gradient of a bias: the sum over everything but the channels.
Term sum_of_channels(Term g);

// Adds each element of `g`, an image of windows, to every element of the window that it belongs to.
Term spread_over_windows(Term g, const PoolShape& s);

}  // namespace sparkpilot
