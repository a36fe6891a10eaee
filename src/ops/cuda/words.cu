// One kernel for each word of device.cuh: words.inc lists them. Thread t reads elements t of `in` and writes elements t
// of `out`, unless a kernel says otherwise. What they answer on a GPU is compared with what they answer in the
// emulator.
#define SPARKPILOT_EACH_ARCHITECTURE  // by cmake/cuda.cmake
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

#define WORD(name)                                                                                  \
  static __device__ __forceinline__ void name##_of(const sparkpilot::cuda::WordArguments& p);       \
  extern "C" __global__ void __launch_bounds__(64) word_##name(sparkpilot::cuda::WordArguments p) { \
    device::begin_kernel();                                                                         \
    name##_of(p);                                                                                   \
  }                                                                                                 \
  static __device__ __forceinline__ void name##_of(const sparkpilot::cuda::WordArguments& p)

namespace {

template <typename T>
__device__ __forceinline__ const T* in(const sparkpilot::cuda::WordArguments& p) {
  return static_cast<const T*>(p.in);
}
template <typename T>
__device__ __forceinline__ T* out(const sparkpilot::cuda::WordArguments& p) {
  return static_cast<T*>(p.out);
}
__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }

}  // namespace

WORD(half) { out<uint16_t>(p)[thread()] = device::to_half(in<float>(p)[thread()]); }
WORD(half_value) { out<float>(p)[thread()] = device::half_value(in<uint16_t>(p)[thread()]); }

// Packed pairs, then the values of what was packed.
WORD(half2) {
  const float* const x = in<float>(p) + thread() * 2;
  const uint32_t pair = device::pack_half2(x[0], x[1]);
  out<uint32_t>(p)[thread()] = pair;
  const float2 values = device::half2_values(pair);
  out<float>(p)[64 + thread() * 2] = values.x;
  out<float>(p)[64 + thread() * 2 + 1] = values.y;
}

WORD(bfloat16) { out<uint16_t>(p)[thread()] = device::to_bfloat16(in<float>(p)[thread()]); }

WORD(bfloat162) {
  const float* const x = in<float>(p) + thread() * 2;
  const uint32_t pair = device::pack_bfloat162(x[0], x[1]);
  out<uint32_t>(p)[thread()] = pair;
  const float2 values = device::bfloat162_values(pair);
  out<float>(p)[64 + thread() * 2] = values.x;
  out<float>(p)[64 + thread() * 2 + 1] = values.y;
}

// Thread t multiplies pairs t and 64 + t.
WORD(multiply_half2) {
  out<uint32_t>(p)[thread()] = device::multiply_half2(in<uint32_t>(p)[thread()], in<uint32_t>(p)[64 + thread()]);
}
WORD(multiply_bfloat162) {
  out<uint32_t>(p)[thread()] = device::multiply_bfloat162(in<uint32_t>(p)[thread()], in<uint32_t>(p)[64 + thread()]);
}

WORD(e4m3) { out<uint8_t>(p)[thread()] = device::to_e4m3(in<float>(p)[thread()]); }
WORD(e2m1x2) {
  const float* const x = in<float>(p) + 2 * thread();
  out<uint8_t>(p)[thread()] = static_cast<uint8_t>(device::pack_e2m1x2(x[0], x[1]));
}
WORD(e4m3_value) { out<float>(p)[thread()] = device::e4m3_value(in<uint8_t>(p)[thread()]); }

// 16 bytes by a load, in even threads by one that may come ahead of begin_kernel(), 16 by a load of what is read once,
// 8 and 8 likewise, 16 in pieces of 4 that are read once; thread t's lie together.
WORD(wide_copies) {
  const char* const from = in<char>(p) + thread() * 64;
  char* const to = out<char>(p) + thread() * 64;
  device::store_16(to, threadIdx.x % 2 ? device::load_16(from) : device::load_16_ahead(from));
  device::store_16(to + 16, device::load_16_once(from + 16));
  device::store_8(to + 32, threadIdx.x % 2 ? device::load_8(from + 32) : device::load_8_ahead(from + 32));
  device::store_8(to + 40, device::load_8_once(from + 40));
  for (int i = 0; i < 4; ++i) out<uint32_t>(p)[thread() * 16 + 12 + i] = device::load_4_once(from + 48 + i * 4);
}

namespace {
// Thread t copies t % (kBytes + 1) bytes of its piece, the rest is zero; another thread of the block writes the piece
// out.
template <int kBytes>
__device__ __forceinline__ void copied(const sparkpilot::cuda::WordArguments& p) {
  STATIC_SHARED(unsigned char, pieces, 64 * kBytes);
  device::copy_async<kBytes>(pieces + thread() * kBytes, in<char>(p) + thread() * kBytes, thread() % (kBytes + 1));
  device::copy_commit();
  device::copy_wait<0>();
  __syncthreads();
  const int other = 63 - thread();
  for (int i = 0; i < kBytes; ++i) out<unsigned char>(p)[other * kBytes + i] = pieces[other * kBytes + i];
}
}  // namespace
WORD(copy_async_16) { copied<16>(p); }
WORD(copy_async_8) { copied<8>(p); }
WORD(copy_async_4) { copied<4>(p); }

// A ring of two buffers, as products use it: step i is copied while step i - 1 is written out.
WORD(copy_groups) {
  STATIC_SHARED(unsigned char, ring, 2 * 1024);
  const int at = thread() * 16;
  device::copy_async<16>(ring + at, in<char>(p) + at, 16);
  device::copy_commit();
  for (int step = 0; step < 4; ++step) {
    if (step < 3) device::copy_async<16>(ring + (step + 1) % 2 * 1024 + at, in<char>(p) + (step + 1) * 1024 + at, 16);
    device::copy_commit();
    device::copy_wait<1>();
    __syncthreads();
    const int other = 1008 - at;
    device::store_16(out<char>(p) + step * 1024 + other, device::load_16(ring + step % 2 * 1024 + other));
    __syncthreads();
  }
}

namespace {
// The four words of each thread; both warps read the same rows, the second one in another order.
template <bool kTransposed>
__device__ __forceinline__ void matrices(const sparkpilot::cuda::WordArguments& p) {
  STATIC_SHARED(uint16_t, rows, 32 * 8);
  for (int i = thread(); i < 32 * 8; i += 64) rows[i] = in<uint16_t>(p)[i];
  __syncthreads();
  const int lane = thread() % 32, row = thread() < 32 ? lane : (lane * 5 + 3) % 32;
  uint32_t words[4];
  if (kTransposed) device::load_matrix_x4_transposed(words, rows + row * 8);
  else device::load_matrix_x4(words, rows + row * 8);
  for (int i = 0; i < 4; ++i) out<uint32_t>(p)[thread() * 4 + i] = words[i];
}
}  // namespace
WORD(matrix_x4) { matrices<false>(p); }
WORD(matrix_x4_transposed) { matrices<true>(p); }

// Of the first warp: a (four words of each lane), b (two), c (four).
#define MMA_WORD(name, Sum)                                                     \
  WORD(name) {                                                                  \
    if (thread() >= 32) return;                                                 \
    uint32_t a[4], b[2];                                                        \
    Sum c[4];                                                                   \
    for (int i = 0; i < 4; ++i) a[i] = in<uint32_t>(p)[thread() * 4 + i];       \
    for (int i = 0; i < 2; ++i) b[i] = in<uint32_t>(p)[128 + thread() * 2 + i]; \
    for (int i = 0; i < 4; ++i) c[i] = in<Sum>(p)[192 + thread() * 4 + i];      \
    device::name(c, a, b);                                                      \
    for (int i = 0; i < 4; ++i) out<Sum>(p)[thread() * 4 + i] = c[i];           \
  }
MMA_WORD(mma_f16, float)
MMA_WORD(mma_bf16, float)
MMA_WORD(mma_e4m3, float)
MMA_WORD(mma_s8, int)

// a, b, the scales of a and of b; c begins as 0.
WORD(mma_e2m1) {
  if (thread() >= 32) return;
  uint32_t a[4], b[2];
  float c[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; ++i) a[i] = in<uint32_t>(p)[thread() * 4 + i];
  for (int i = 0; i < 2; ++i) b[i] = in<uint32_t>(p)[128 + thread() * 2 + i];
  device::mma_e2m1(c, a, b, in<uint32_t>(p)[192 + thread()], in<uint32_t>(p)[224 + thread()]);
  for (int i = 0; i < 4; ++i) out<float>(p)[thread() * 4 + i] = c[i];
}

// Two by two tiles of each warp: f16 by the first, bf16 by the second.
WORD(mma_tile) {
  uint32_t a[2][4], b[2][2];
  float c[2][2][4] = {};
  for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = in<uint32_t>(p)[thread() * 8 + i];
  for (int i = 0; i < 4; ++i) b[i / 2][i % 2] = in<uint32_t>(p)[512 + thread() * 4 + i];
  if (thread() < 32) device::mma_tile_f16(c, a, b);
  else device::mma_tile_bf16(c, a, b);
  for (int i = 0; i < 16; ++i) {
    if (i < 8) out<float>(p)[thread() * 8 + i] = c[i / 8][i / 4 % 2][i % 4] + c[1][i / 4 % 2][i % 4];
  }
}

// Five results of each thread.
WORD(shuffles) {
  const int x = in<int>(p)[thread()], lane = thread() % 32;
  int* const y = out<int>(p) + thread() * 5;
  y[0] = __shfl_sync(~0u, x, 31 - lane);
  y[1] = __shfl_xor_sync(~0u, x, 5);
  y[2] = __shfl_down_sync(~0u, x, 3);
  y[3] = __shfl_up_sync(~0u, x, 7);
  y[4] = __shfl_xor_sync(~0u, __shfl_sync(~0u, x, 2, 8), 8, 16);
}

WORD(votes) {
  const int x = in<int>(p)[thread()];
  unsigned* const y = out<unsigned>(p) + thread() * 4;
  y[0] = __ballot_sync(~0u, x & 1);
  y[1] = static_cast<unsigned>(__any_sync(~0u, x & 2));
  y[2] = static_cast<unsigned>(__all_sync(~0u, x & 4));
  y[3] = static_cast<unsigned>(__popc(static_cast<unsigned>(x)) * 100 + __clz(x));
}

WORD(barriers) {
  const int x = in<int>(p)[thread()];
  int* const y = out<int>(p) + thread() * 2;
  y[0] = __syncthreads_count(x & 1);
  y[1] = __syncthreads_or(x == 77);
}

// The sum, the largest, and how often each was called.
WORD(atomics) {
  int* const y = out<int>(p);
  if (thread() == 0) y[0] = 0, y[1] = -2147483647, y[2] = 0, y[3] = 0;
  __syncthreads();
  const int x = in<int>(p)[thread()];
  atomicAdd(y, x);
  atomicMax(y + 1, x);
  atomicAdd(reinterpret_cast<unsigned*>(y + 2), 1u);
}

WORD(max_nan) {
  const float a = in<float>(p)[thread()], b = in<float>(p)[64 + thread()];
  out<float>(p)[thread() * 2] = device::max_nan(a, b);
  out<float>(p)[thread() * 2 + 1] = device::min_nan(a, b);
}

// What must not be contracted, and what rounds once.
WORD(rounded_once) {
  const float a = in<float>(p)[thread()], b = in<float>(p)[64 + thread()], c = in<float>(p)[128 + thread()];
  float* const y = out<float>(p) + thread() * 5;
  y[0] = __fadd_rn(__fmul_rn(a, b), c);
  y[1] = __fmaf_rn(a, b, c);
  y[2] = __fdiv_rn(a, b);
  y[3] = __fsqrt_rn(c * c);
  y[4] = fmaf(a, b, -c);
}

WORD(warp_sum) {
  const float x = in<float>(p)[thread()];
  out<float>(p)[thread() * 2] = device::warp_sum(x);
  out<float>(p)[thread() * 2 + 1] = device::warp_max(x);
}

// What is only near, for arguments of 2 to 8: seven functions of each thread.
WORD(approximate) {
  const float x = in<float>(p)[thread()];
  float* const y = out<float>(p) + thread() * 7;
  y[0] = __expf(-x);
  y[1] = __logf(x);
  y[2] = rsqrtf(x);
  y[3] = __fdividef(1.0f, x);
  y[4] = tanhf(x / 4);
  y[5] = erff(x / 4);
  y[6] = expf(x);
}

// The high word of a product.
WORD(high_product) {
  const unsigned* const x = in<unsigned>(p);
  out<unsigned>(p)[thread()] = __umulhi(x[thread()], x[64 + thread()]);
}
