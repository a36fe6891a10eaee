// A step of AdamW: see adamw.h.
#include "ops/cuda/adamw.h"

#include "ops/cuda/storage.cuh"
#include "ops/cuda/tile.cuh"

namespace {

using sparkpilot::cuda::AdamWArguments;
using sparkpilot::cuda::AdamWTensor;
using sparkpilot::cuda::kAdamWElements;
using sparkpilot::cuda::kAdamWThreads;

struct Step {
  float scale, decay, step, root;
};

// By squares: at most 63 of them.
__device__ __forceinline__ double power(double base, long long exponent) {
  double out = 1;
#pragma unroll 1
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 != 0) out *= base;
  return out;
}

__device__ __forceinline__ void update(const AdamWArguments& p, const Step& step, float gradient, float& x, float& m,
                                       float& v) {
  const float g = step.scale * gradient;
  m = fmaf(p.beta1, m, (1 - p.beta1) * g);
  v = fmaf(p.beta2, v, (1 - p.beta2) * (g * g));
  const float deviation = fmaf(sqrtf(v), step.root, p.epsilon);
  x = fmaf(-step.step, m / deviation, step.decay * x);
}

// Four elements from `at`, where all memory begins at a multiple of 16.
__device__ __forceinline__ void update_four(const AdamWArguments& p, const Step& step, const AdamWTensor& t, int at) {
  float x[4], g[4], m[4], v[4];
  device::load_piece<device::F32>(t.x + at, x);
  device::load_piece<device::F32>(t.gradient + at, g);
  device::load_piece<device::F32>(t.m + at, m);
  device::load_piece<device::F32>(t.v + at, v);
#pragma unroll
  for (int i = 0; i < 4; ++i) update(p, step, g[i], x[i], m[i], v[i]);
  const auto store = [&](float* to, const float(&four)[4]) {
    device::store_16(to + at, {__float_as_uint(four[0]), __float_as_uint(four[1]), __float_as_uint(four[2]),
                               __float_as_uint(four[3])});
  };
  store(t.next_x, x);
  store(t.next_m, m);
  store(t.next_v, v);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kAdamWThreads) adamw_f32(const __grid_constant__ AdamWArguments p) {
  device::begin_kernel();
  const int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  int low = 0, high = p.tensors - 1;  // the last tensor that begins at this block or before
#pragma unroll 1
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (p.all[middle].first_block <= block) low = middle;
    else high = middle - 1;
  }
  const AdamWTensor& t = p.all[low];
  STATIC_SHARED(Step, of_all, 1);
  if (thread == 0) {
    const double rate = *p.rate;
    const long long count = *p.count;
    const double correction1 = 1 - power(p.beta1, count), correction2 = 1 - power(p.beta2, count);
    of_all[0] = {*p.scale, static_cast<float>(1 - rate * p.weight_decay),
                 count < 1 ? __uint_as_float(0x7fc00000u) : static_cast<float>(rate / correction1),
                 static_cast<float>(1 / sqrt(correction2))};
  }
  __syncthreads();
  const Step step = of_all[0];
  const int first = (block - t.first_block) * kAdamWElements;
  const int last = device::least(t.elements, first + kAdamWElements);
  const auto begins_at_16 = [](const float* a, const float* b) {
    return device::is_aligned(a, 0) && device::is_aligned(b, 0);
  };
  if (begins_at_16(t.x, t.next_x) && begins_at_16(t.m, t.next_m) && begins_at_16(t.v, t.next_v) &&
      device::is_aligned(t.gradient, 0)) {
    const int whole = last / 4 * 4;
#pragma unroll 2
    for (int at = first + thread * 4; at < whole; at += kAdamWThreads * 4) update_four(p, step, t, at);
    const int rest = whole + thread;
    if (rest < last) {
      float x = t.x[rest], m = t.m[rest], v = t.v[rest];
      update(p, step, t.gradient[rest], x, m, v);
      t.next_x[rest] = x, t.next_m[rest] = m, t.next_v[rest] = v;
    }
    return;
  }
#pragma unroll 1
  for (int at = first + thread; at < last; at += kAdamWThreads) {
    float x = t.x[at], m = t.m[at], v = t.v[at];
    update(p, step, t.gradient[at], x, m, v);
    t.next_x[at] = x, t.next_m[at] = m, t.next_v[at] = v;
  }
}
