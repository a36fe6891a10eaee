// Kernels with one fault each, as they are really written, and a right one for each: tests want the fault to be
// found and nothing in the right one. kRight mends the fault.
#include "emulator/broken_kernels_test.h"
#include "ops/cuda/device.cuh"

using sparkpilot::emulator::BrokenArguments;

#define KERNELS(name)                                                                    \
  template <bool kRight>                                                                 \
  static __device__ void name##_body(const BrokenArguments& p);                          \
  extern "C" __global__ void broken_##name(BrokenArguments p) { name##_body<false>(p); } \
  extern "C" __global__ void right_##name(BrokenArguments p) { name##_body<true>(p); }   \
  template <bool kRight>                                                                 \
  static __device__ void name##_body([[maybe_unused]] const BrokenArguments& p)

namespace {
__device__ int thread() { return static_cast<int>(threadIdx.x); }
__device__ int lane() { return thread() % 32; }
}  // namespace

// No barrier between writing and reading shared memory.
KERNELS(no_barrier) {
  STATIC_SHARED(float, x, 128);
  x[thread()] = p.in[thread()];
  if (kRight) __syncthreads();
  p.out[thread()] = x[127 - thread()];
}

// The second reduction overwrites what others still read of the first.
KERNELS(reused_too_early) {
  STATIC_SHARED(float, partial, 4);
  float total = 0;
  for (int round = 0; round < 2; ++round) {
    const float sum = device::warp_sum(p.in[thread()] + static_cast<float>(round));
    if (kRight) __syncthreads();
    if (lane() == 0) partial[thread() / 32] = sum;
    __syncthreads();
    for (int i = 0; i < 4; ++i) total += partial[i];
  }
  p.out[thread()] = total;
}

// The tile is multiplied before its asynchronous copy has arrived.
KERNELS(no_wait) {
  STATIC_SHARED(float, x, 128);
  if (thread() < 32) device::copy_async<16>(x + thread() * 4, p.in + thread() * 4, 16);
  device::copy_commit();
  if (kRight) device::copy_wait<0>();
  __syncthreads();
  p.out[thread()] = x[127 - thread()];
  device::copy_wait<0>();
}

// One group too many may still be under way.
KERNELS(wait_for_too_few) {
  STATIC_SHARED(float, x, 256);
  for (int step = 0; step < 2; ++step) {
    if (thread() < 32) device::copy_async<16>(x + step * 128 + thread() * 4, p.in + thread() * 4, 16);
    device::copy_commit();
  }
  device::copy_wait<kRight ? 0 : 1>();
  __syncthreads();
  p.out[thread()] = x[255 - thread()];
  device::copy_wait<0>();
}

KERNELS(ends_under_way) {
  STATIC_SHARED(float, x, 128);
  if (thread() < 32) device::copy_async<16>(x + thread() * 4, p.in + thread() * 4, 16);
  device::copy_commit();
  if (kRight) device::copy_wait<0>();
  p.out[thread()] = p.in[thread()];
}

// The last warp does not come to the barrier of the loop.
KERNELS(missed_barrier) {
  for (int i = 0; i < 2; ++i) {
    if (kRight || thread() < 96 || i == 0) __syncthreads();
  }
  __syncthreads();
  p.out[thread()] = p.in[thread()];
}

// Lanes that have no work skip the shuffle that the others do.
KERNELS(missed_shuffle) {
  float x = p.in[thread()];
  if (kRight || lane() < 20) x += __shfl_xor_sync(~0u, x, 1);
  p.out[thread()] = x;
}

// The mask leaves out threads that come to the word.
KERNELS(partial_mask) { p.out[thread()] = __shfl_sync(kRight ? ~0u : 0xffffu, p.in[thread()], 0); }

// Within a warp: written by one lane, read by another, without __syncwarp().
KERNELS(no_warp_barrier) {
  STATIC_SHARED(float, x, 128);
  x[thread()] = p.in[thread()];
  if (kRight) __syncwarp();
  p.out[thread()] = x[thread() ^ 1];
}

KERNELS(one_too_far) {
  const int end = kRight ? p.count : p.count + 1;
  float sum = 0;
  for (int i = thread(); i < end; i += 128) sum += p.in[i];
  p.out[thread()] = sum;
}

KERNELS(writes_one_too_far) {
  p.out[thread()] = 0;
  if (thread() == 127) p.out[kRight ? 127 : 128] = 1;
}

KERNELS(beyond_shared) {
  STATIC_SHARED(float, x, 128);
  x[thread() + (kRight ? 0 : 1)] = p.in[thread()];
  __syncthreads();
  p.out[thread()] = x[kRight ? thread() : 127];
}

KERNELS(beyond_dynamic_shared) {
  DYNAMIC_SHARED(memory);
  float* const x = reinterpret_cast<float*>(memory);
  const int at = thread() + (kRight ? 0 : 1);
  x[at] = p.in[thread()];
  p.out[thread()] = x[at];
}

// An array that nobody has written.
KERNELS(never_written) {
  STATIC_SHARED(float, x, 128);
  if (kRight) x[thread()] = 0;
  p.out[thread()] = p.in[thread()] + x[thread()];
}

KERNELS(writes_input) {
  p.out[thread()] = p.in[thread()];
  if (!kRight) const_cast<float*>(p.in)[thread()] = 0;
}

// Both blocks write all of the output.
KERNELS(two_blocks_write) {
  const int block = static_cast<int>(blockIdx.x);
  if (!kRight || block == 0) p.out[thread()] = p.in[thread()] + static_cast<float>(kRight ? 0 : block);
}

// A block reads what another one writes in the same launch.
KERNELS(reads_other_block) {
  const int block = static_cast<int>(blockIdx.x);
  if (thread() < 64) p.out[block * 64 + thread()] = p.in[thread()];
  else if (!kRight) p.out[block * 64 + thread() - 64] += p.out[(1 - block) * 64 + thread() - 64];
}

// Threads write neighbours' bytes of a global buffer without a barrier.
KERNELS(global_race) {
  p.out[thread()] = p.in[thread()];
  if (kRight) __syncthreads();
  const float x = p.out[127 - thread()];
  __syncthreads();
  p.out[thread()] = x;
}

KERNELS(unaligned_load) {
  const uint4 x = device::load_16(p.in + (kRight ? thread() / 4 * 4 : thread() / 8));
  p.out[thread()] = __uint_as_float(x.x);
}

KERNELS(unaligned_row) {
  STATIC_SHARED(uint16_t, rows, 32 * 9);
  for (int i = thread(); i < 32 * 9; i += 128) rows[i] = 0;
  __syncthreads();
  uint32_t r[4];
  device::load_matrix_x4(r, rows + lane() * (kRight ? 8 : 9));
  p.out[thread()] = __uint_as_float(r[0]);
}

// Not wrong, only slow: each thread reads a separate row, and 32 threads one bank. The right ones read along the row,
// and rows lie one element further apart.
KERNELS(slow_reads) {
  constexpr int kPitch = kRight ? 33 : 32;
  STATIC_SHARED(float, x, 33 * 32);
  const int warp = thread() / 32;
  for (int i = 0; i < 32 && warp == 0; ++i) {
    const float value = kRight ? p.wide[i * 32 + lane()] : p.wide[lane() * 32 + i];
    x[kRight ? i * kPitch + lane() : lane() * kPitch + i] = value;
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 32; ++i) sum += x[lane() * kPitch + i];
  p.out[thread()] = sum;
}
