// The elementwise part of AdamW, compiled for each instruction set. Serial; each output may be the input of the same
// name.
#pragma once

#include <cstdint>

namespace sparkpilot {

// Decoupled weight decay (Loshchilov and Hutter, 2019), with the bias corrections of the moments in `step` and `root`:
//   g = scale gradient        m' = beta1 m + (1 - beta1) g        v' = beta2 v + (1 - beta2) g^2
//   x' = decay x - step m' / (sqrt(v') root + epsilon)
struct AdamWStep {
  float scale, beta1, beta2, decay, step, root, epsilon;
};

struct AdamWRows {
  const float *x, *gradient, *m, *v;
  float *next_x, *next_m, *next_v;
};
void adamw_rows(const AdamWStep& step, const AdamWRows& rows, int64_t first, int64_t last);

}  // namespace sparkpilot
