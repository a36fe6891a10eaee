// The words of device.cuh on a GPU. Names, numbers and orders of operands are those of the PTX manual.
#pragma once

namespace device {

// Every kernel begins with it, but for indices and constant weights: until all that was enqueued before is done and its
// writes can be seen. From 9.0 on a launch begins while the one before it ends (GpuStream::launch), which costs less
// than beginning after it: 3 to 10 % of a network's time on an H100.
__device__ __forceinline__ void begin_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Behind begin_kernel(): the next launch may begin now, up to its own begin_kernel(), while this one computes. At once
// in products of one row, in attention and in kernels that move or reduce; where only the epilogue is left in depthwise
// convolutions by rows, other convolutions and other products: networks lost 10 % on an H100 where those began at once,
// too, and gained 7 to 12 % this way. Elsewhere it was not tried; then the next launch begins as this one ends.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// 16 bytes at a multiple of 16: one instruction, and a request whose sectors the emulator counts.
__device__ __forceinline__ uint4 load_16(const void* from) { return *static_cast<const uint4*>(from); }
__device__ __forceinline__ uint2 load_8(const void* from) { return *static_cast<const uint2*>(from); }
__device__ __forceinline__ void store_16(void* to, uint4 value) { *static_cast<uint4*>(to) = value; }
__device__ __forceinline__ void store_8(void* to, uint2 value) { *static_cast<uint2*>(to) = value; }
// What nobody reads again soon, such as weights at batch 1: it does not push other data out of the first-level cache.
// Not for what the same kernel writes.
__device__ __forceinline__ uint4 load_16_once(const void* from) {
  uint4 out;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "l"(from));
  return out;
}
// The same before begin_kernel(): compilers move the loads above behind the wait.
__device__ __forceinline__ uint4 load_16_ahead(const void* from) {
  uint4 out;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
               : "l"(from)
               : "memory");
  return out;
}
__device__ __forceinline__ uint2 load_8_ahead(const void* from) {
  uint2 out;
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(out.x), "=r"(out.y) : "l"(from) : "memory");
  return out;
}
__device__ __forceinline__ uint2 load_8_once(const void* from) {
  uint2 out;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(out.x), "=r"(out.y) : "l"(from));
  return out;
}
__device__ __forceinline__ uint32_t load_4_once(const void* from) {
  uint32_t out;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(out) : "l"(from));
  return out;
}

// f16 and bf16, alone and as pairs in a word (the low half is the element that comes first in memory).
__device__ __forceinline__ float half_value(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ uint16_t to_half(float value) { return __half_as_ushort(__float2half_rn(value)); }
__device__ __forceinline__ float2 half2_values(uint32_t bits) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}
__device__ __forceinline__ uint32_t pack_half2(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ float bfloat16_value(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
__device__ __forceinline__ uint16_t to_bfloat16(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
__device__ __forceinline__ float2 bfloat162_values(uint32_t bits) {
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}
__device__ __forceinline__ uint32_t pack_bfloat162(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// Products of pairs, each rounded.
__device__ __forceinline__ uint32_t multiply_half2(uint32_t a, uint32_t b) {
  const __half2 pair = __hmul2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t multiply_bfloat162(uint32_t a, uint32_t b) {
  const __nv_bfloat162 pair =
      __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// Saturating; NaN becomes 0x7f.
__device__ __forceinline__ float e4m3_value(uint8_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
}
__device__ __forceinline__ uint8_t to_e4m3(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// kBytes (4, 8 or 16) from global to shared memory, those beyond `bytes` as zero, done when copy_wait returns.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, int bytes) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
}
// The same before begin_kernel(), of what the launch before this one does not write. scripts/gpu_budget.py knows it by
// the 128 bytes, and the loads ahead as those that are not `nc`, of what nobody reads again.
__device__ __forceinline__ void copy_16_ahead(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kPending groups of this thread are under way. Other threads see the data after a barrier.
template <int kPending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four matrices of 8x8 16-bit elements: lanes 0 to 7 name the rows of the first, 8 to 15 of the second, ...
__device__ __forceinline__ void load_matrix_x4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void load_matrix_x4_transposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// c += a b of one warp, in fp32, of s8 in 32 bits: a 16xK, b Kx8, K 16 for f16 and bf16, 32 for e4m3 and s8.
#define SPARKPILOT_MMA(name, shape_and_types, Sum, in_register)                                               \
  __device__ __forceinline__ void name(Sum(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {            \
    asm volatile("mma.sync.aligned." shape_and_types                                                          \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                           \
                 : "+" in_register(c[0]), "+" in_register(c[1]), "+" in_register(c[2]), "+" in_register(c[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                         \
  }
SPARKPILOT_MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
SPARKPILOT_MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
SPARKPILOT_MMA(mma_s8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")
// What follows does not exist on 8.0, as for which most sources are compiled: they do not see it.
#ifdef SPARKPILOT_EACH_ARCHITECTURE
// Exists from sm_89 on. On what is older a kernel that comes here stops with an error instead of leaving c as it is.
#if __CUDA_ARCH__ >= 890
SPARKPILOT_MMA(mma_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
#else
__device__ __forceinline__ void mma_e4m3(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2]) { __trap(); }
#endif

#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1200)
#define SPARKPILOT_HAS_E2M1
#endif

// Two codes in the lower 8 bits. Saturating; ties to the even code; NaN becomes 6. Only 12.x has it.
__device__ __forceinline__ uint32_t pack_e2m1x2(float low, float high) {
#ifdef SPARKPILOT_HAS_E2M1
  uint32_t out;
  asm("{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %2, %1; cvt.u32.u8 %0, pair; }"
      : "=r"(out)
      : "f"(low), "f"(high));
  return out;
#else
  __trap();
  return 0;
#endif
}

// The same with e2m1 and a depth of 64, in blocks of 16 with an e4m3 scale each, byte i of the scales for block i: of
// scale_a the lower two lanes of each four give rows lane / 4 and lane / 4 + 8, of scale_b the lowest gives column lane
// / 4. Only 12.x has it.
__device__ __forceinline__ void mma_e2m1(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                         uint32_t scale_a, uint32_t scale_b) {
#ifdef SPARKPILOT_HAS_E2M1
  asm volatile(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%11, %12}, {%13}, {%14, %15};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scale_a), "h"(static_cast<short>(0)),
        "h"(static_cast<short>(0)), "r"(scale_b), "h"(static_cast<short>(0)), "h"(static_cast<short>(0)));
#else
  __trap();
#endif
}
#endif
#undef SPARKPILOT_MMA
#undef SPARKPILOT_HAS_E2M1

}  // namespace device
