// Attention in one kernel, with a softmax that goes on from tile to tile of keys: see attention.h.
#include "ops/cuda/attention.h"

#include "ops/cuda/epilogue_four.cuh"
#include "ops/cuda/tile.cuh"

namespace {

using sparkpilot::cuda::AttentionArguments;

constexpr float kLog2E = 1.4426950408889634f;  // powers are of 2

// What the mask hides is hidden whatever its score is.
__device__ __forceinline__ float masked(const AttentionArguments& p, float score, long long at) {
  const float mask = device::operand_value(p.mask_storage, p.mask, at);
  return mask == -INFINITY ? mask : score + mask;
}

// What maxima are subtracted as: where all so far are -infinity, nothing.
__device__ __forceinline__ float reference(float most) { return most == -INFINITY ? 0.0f : most; }

// The parts of one query's keys, of several warps: largest score, sum and weighted sum of values relative to it.
struct Parts {
  const float* most;  // of part 0; others follow at `stride`
  const float* sum;
  const float* values;  // of part 0; others follow at `value_stride`
  int count, stride, value_stride;

  template <int kCount>
  __device__ __forceinline__ void combine(float (&out)[kCount]) const {
    float top = -INFINITY, whole = 0;
    for (int i = 0; i < count; ++i) top = device::max_nan(top, most[i * stride]);
#pragma unroll
    for (int j = 0; j < kCount; ++j) out[j] = 0;
    for (int i = 0; i < count; ++i) {
      const float weight = exp2f(most[i * stride] - reference(top));
      whole = fmaf(sum[i * stride], weight, whole);
      float part[kCount];
      if constexpr (kCount == 4) device::load_four<device::F32>(values + i * value_stride, part);
      else part[0] = values[i * value_stride];
#pragma unroll
      for (int j = 0; j < kCount; ++j) out[j] = fmaf(part[j], weight, out[j]);
    }
    const float scale = whole == 0.0f ? 0.0f : 1.0f / whole;  // 0: the query sees no key
#pragma unroll
    for (int j = 0; j < kCount; ++j) out[j] *= scale;
  }
};

// Heads of at most kSize elements, the rest zero. Each warp has 16 queries, and of each tile of keys every
// warps_per_query-th 16; blockIdx is the block of queries, head, batch.
template <typename T, bool kBfloat, int kSize>
__device__ __forceinline__ void attention(const AttentionArguments& p) {
  constexpr int kWarps = 4, kKeys = kSize == 128 ? 32 : 64, kPieces = kSize / 8, kStride = kSize + 8;
  constexpr int kTile = kKeys * kSize, kQueries = kWarps * 16;
  constexpr int kBytes = 2 * (kQueries * kSize + 4 * kTile), kSums = kQueries * kStride * 4, kStats = kQueries * 8;
  static_assert(kSums + kStats <= kBytes);
  STATIC_SHARED(unsigned char, memory, kBytes);
  uint16_t* const q_tile = reinterpret_cast<uint16_t*>(memory);
  uint16_t* const ring = q_tile + kQueries * kSize;  // keys, values, twice
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int parts = p.warps_per_query, tile = warp / parts, part = warp - tile * parts;
  const int head = static_cast<int>(blockIdx.y), key_head = head / p.heads_per_key;
  const long long batch = blockIdx.z;
  const int block_queries = kWarps / parts * 16, first_query = static_cast<int>(blockIdx.x) * block_queries;
  const uint16_t* const q =
      static_cast<const uint16_t*>(p.q) + batch * p.q_batch + head * p.q_head + first_query * p.q_token;
  const uint16_t* const k = static_cast<const uint16_t*>(p.k) + batch * p.k_batch + key_head * p.k_head;
  const uint16_t* const v = static_cast<const uint16_t*>(p.v) + batch * p.v_batch + key_head * p.v_head;
  const int left = device::least(p.queries - first_query, block_queries);
  device::load_tile<kWarps * 32, uint16_t, kQueries, kPieces>(q_tile, q, p.q_token, left, p.size,
                                                              device::is_aligned(q, p.q_token * 2));
  const bool k_aligned = device::is_aligned(k, p.k_token * 2), v_aligned = device::is_aligned(v, p.v_token * 2);
  // The two queries and, for the mask, their rows.
  const int query = first_query + tile * 16 + lane / 4;
  long long mask_rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    mask_rows[i] =
        batch * p.mask_batch + head * p.mask_head + device::least(query + i * 8, p.queries - 1) * p.mask_query;

  float most[2] = {-INFINITY, -INFINITY}, sums[2] = {0, 0};
  float out[kSize / 32][1][4][4] = {};
  uint32_t queries[kSize / 16][1][4];
  const int tiles = (p.keys + kKeys - 1) / kKeys;
#pragma unroll 1
  for (int step = -1; step < tiles; ++step) {
    device::copy_wait<0>();
    __syncthreads();  // the step's keys are there, and all are done with the stage that is filled next
    if (step + 1 < tiles) {
      uint16_t* const stage = ring + ((step + 1) & 1) * 2 * kTile;
      const int first = (step + 1) * kKeys;
      device::load_tile<kWarps * 32, uint16_t, kKeys, kPieces>(stage, k + first * p.k_token, p.k_token, p.keys - first,
                                                               p.size, k_aligned);
      device::load_tile<kWarps * 32, uint16_t, kKeys, kPieces>(stage + kTile, v + first * p.v_token, p.v_token,
                                                               p.keys - first, p.size, v_aligned);
    }
    device::copy_commit();
    if (step < 0) continue;
    if (step == 0) {
#pragma unroll
      for (int i = 0; i < kSize / 16; ++i)
        device::load_matrix_x4(queries[i][0],
                               q_tile + device::place<kPieces>(tile * 16 + lane % 16, i * 2 + lane / 16) * 8);
    }
    const uint16_t* const keys = ring + (step & 1) * 2 * kTile;
    const uint16_t* const values = keys + kTile;
#pragma unroll 1
    for (int slice = part * 16; slice < kKeys && step * kKeys + slice < p.keys; slice += parts * 16) {
      float scores[1][2][4] = {};
#pragma unroll
      for (int i = 0; i < kSize / 16; ++i) {
        uint32_t four[4];
        device::load_matrix_x4(
            four, keys + device::place<kPieces>(slice + lane / 16 * 8 + lane % 8, i * 2 + lane / 8 % 2) * 8);
        const uint32_t right[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
        if constexpr (kBfloat) device::mma_tile_bf16(scores, queries[i], right);
        else device::mma_tile_f16(scores, queries[i], right);
      }
      const int key = step * kKeys + slice + lane % 4 * 2;
      float top[2] = {most[0], most[1]};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int at = key + i / 4 * 8 + i % 2, row = i / 2 % 2;
        float& score = scores[0][i / 4][i % 4];
        score *= p.scale;
        if (p.mask && at < p.keys) score = masked(p, score, mask_rows[row] + at * p.mask_key);
        score = at < p.keys ? score * kLog2E : -INFINITY;
        top[row] = device::max_nan(top[row], score);
      }
      bool grown = false;
      float weight[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        top[row] = device::max_nan(top[row], __shfl_xor_sync(~0u, top[row], 1));
        top[row] = device::max_nan(top[row], __shfl_xor_sync(~0u, top[row], 2));
        grown = grown || top[row] != most[row];
        weight[row] = exp2f(most[row] - reference(top[row]));
        most[row] = top[row];
      }
      if (__any_sync(~0u, grown)) {  // seldom after the first keys
#pragma unroll
        for (int row = 0; row < 2; ++row) sums[row] *= weight[row];
#pragma unroll
        for (int i = 0; i < kSize / 8 * 4; ++i) out[i / 16][0][i / 4 % 4][i % 4] *= weight[i / 2 % 2];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = scores[0][i / 4][i % 4];
        score = exp2f(score - reference(most[i / 2 % 2]));
        sums[i / 2 % 2] += score;
      }
      const uint32_t weights[1][4] = {
          {T::pair(scores[0][0][0], scores[0][0][1]), T::pair(scores[0][0][2], scores[0][0][3]),
           T::pair(scores[0][1][0], scores[0][1][1]), T::pair(scores[0][1][2], scores[0][1][3])}};
#pragma unroll
      for (int i = 0; i < kSize / 32; ++i) {
        uint32_t right[4][2];
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          uint32_t four[4];
          device::load_matrix_x4_transposed(
              four, values + device::place<kPieces>(slice + lane % 16, i * 4 + j + lane / 16) * 8);
          right[j][0] = four[0], right[j][1] = four[1], right[j + 1][0] = four[2], right[j + 1][1] = four[3];
        }
        if constexpr (kBfloat) device::mma_tile_bf16(out[i], weights, right);
        else device::mma_tile_f16(out[i], weights, right);
      }
    }
  }
  device::copy_wait<0>();
  __syncthreads();
  float* const all = reinterpret_cast<float*>(memory);  // of each warp 16 rows of kStride
  float* const stats = all + kQueries * kStride;        // of each row the largest; then of each the sum
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    sums[row] += __shfl_xor_sync(~0u, sums[row], 1);
    sums[row] += __shfl_xor_sync(~0u, sums[row], 2);
    const int at = warp * 16 + lane / 4 + row * 8;
    if (lane % 4 == 0) stats[at] = most[row], stats[kQueries + at] = sums[row];
#pragma unroll
    for (int i = 0; i < kSize / 8; ++i)
      device::store_8(all + at * kStride + i * 8 + lane % 4 * 2, {__float_as_uint(out[i / 4][0][i % 4][row * 2]),
                                                                  __float_as_uint(out[i / 4][0][i % 4][row * 2 + 1])});
  }
  __syncthreads();
  const long long y = batch * p.y_batch + head * p.y_head;
#pragma unroll 1
  for (int at = thread; at < left * (kSize / 4); at += kWarps * 32) {
    const int row = at / (kSize / 4), column = at % (kSize / 4) * 4;
    if (column >= p.size) continue;
    const int first = row / 16 * parts * 16 + row % 16;
    float four[4];
    Parts{stats + first, stats + kQueries + first, all + first * kStride + column, parts, 16, 16 * kStride}.combine(
        four);
    device::store_four<T>(p.y, y + (first_query + row) * p.y_token + column, p.size - column, four);
  }
}

// One query a warp, or several warps of the block. A lane has a key for the scores, columns for the weighted sum of
// values. blockIdx.y: the head, and which kAttentionRowColumns of its columns.
template <typename T>
__device__ __forceinline__ void attention_rows(const AttentionArguments& p) {
  using Bits = typename T::Bits;
  constexpr int kWarps = 8, kColumns = sparkpilot::cuda::kAttentionRowColumns, kEach = kColumns / 32;
  constexpr int kPiece = 16 / static_cast<int>(sizeof(Bits));
  STATIC_SHARED(float, weights, kWarps * 32);
  STATIC_SHARED(float, all, kWarps* kColumns);
  STATIC_SHARED(float, stats, 2 * kWarps);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int parts = p.warps_per_query, part = warp & (parts - 1);
  const int query = (static_cast<int>(blockIdx.x) * kWarps + warp) / parts;
  const int chunk = static_cast<int>(blockIdx.y) / p.heads, head = static_cast<int>(blockIdx.y) - chunk * p.heads;
  const int key_head = head / p.heads_per_key, first_column = chunk * kColumns;
  const int columns = device::least(p.size - first_column, kColumns);
  const long long batch = blockIdx.z;
  const bool there = query < p.queries;
  const Bits* const q =
      static_cast<const Bits*>(p.q) + batch * p.q_batch + head * p.q_head + (there ? query : 0) * p.q_token;
  const Bits* const k = static_cast<const Bits*>(p.k) + batch * p.k_batch + key_head * p.k_head;
  const Bits* const v = static_cast<const Bits*>(p.v) + batch * p.v_batch + key_head * p.v_head + first_column;
  const long long mask = batch * p.mask_batch + head * p.mask_head + query * p.mask_query;
  const bool aligned =
      device::is_aligned(q, 0) && device::is_aligned(k, p.k_token * static_cast<long long>(sizeof(Bits)));
  const int pieces = aligned ? p.size / kPiece : 0;

  float most = -INFINITY, sum = 0, out[kEach] = {};
#pragma unroll 1
  for (int first = part * 32; first < (there ? p.keys : 0); first += parts * 32) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key < p.keys) {
      const Bits* const row = k + key * p.k_token;
      float even = 0, odd = 0;
#pragma unroll 4
      for (int i = 0; i < pieces; ++i) {
        float a[kPiece], b[kPiece];
        device::load_piece<T>(q + i * kPiece, a);
        device::load_piece<T>(row + i * kPiece, b);
#pragma unroll
        for (int j = 0; j < kPiece; j += 2) even = fmaf(a[j], b[j], even), odd = fmaf(a[j + 1], b[j + 1], odd);
      }
#pragma unroll 1
      for (int i = pieces * kPiece; i < p.size; ++i) even = fmaf(T::value(q[i]), T::value(row[i]), even);
      score = (even + odd) * p.scale;
      if (p.mask) score = masked(p, score, mask + key * p.mask_key);
      score *= kLog2E;
    }
    const float top = device::max_nan(most, device::warp_max(score));
    const float scale = exp2f(most - reference(top)), weight = exp2f(score - reference(top));
    most = top;
    sum = fmaf(sum, scale, weight);
#pragma unroll
    for (int i = 0; i < kEach; ++i) out[i] *= scale;
    weights[warp * 32 + lane] = weight;
    __syncwarp();
    const int count = device::least(p.keys - first, 32);
    const Bits* const from = v + first * p.v_token + lane;
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      const float w = weights[warp * 32 + j];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (i * 32 >= columns) break;
        if (i * 32 + lane < columns) out[i] = fmaf(w, T::value(from[j * p.v_token + i * 32]), out[i]);
      }
    }
    __syncwarp();
  }
  sum = device::warp_sum(sum);
  if (lane == 0) stats[warp] = most, stats[kWarps + warp] = sum;
#pragma unroll
  for (int i = 0; i < kEach; ++i) all[warp * kColumns + i * 32 + lane] = out[i];
  __syncthreads();
  if (!there) return;
  Bits* const y = static_cast<Bits*>(p.y) + batch * p.y_batch + head * p.y_head + query * p.y_token + first_column;
#pragma unroll 1
  for (int column = part * 32 + lane; column < columns; column += parts * 32) {
    float one[1];
    const int first = warp - part;
    Parts{stats + first, stats + kWarps + first, all + first * kColumns + column, parts, 1, kColumns}.combine(one);
    y[column] = T::rounded(one[0]);
  }
}

}  // namespace

#define ATTENTION(name, ...)                                                                 \
  extern "C" __global__ void __launch_bounds__(128) attention_##name(AttentionArguments p) { \
    device::begin_kernel();                                                                  \
    device::let_next_begin();                                                                \
    attention<__VA_ARGS__>(p);                                                               \
  }
ATTENTION(f16_32, device::F16, false, 32)
ATTENTION(f16_64, device::F16, false, 64)
ATTENTION(f16_128, device::F16, false, 128)
ATTENTION(bf16_32, device::BF16, true, 32)
ATTENTION(bf16_64, device::BF16, true, 64)
ATTENTION(bf16_128, device::BF16, true, 128)

// (256, 1): else ptxas spills for more blocks than there are.
#define ATTENTION_ROWS(name, type)                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 1) attention_rows_##name(AttentionArguments p) { \
    device::begin_kernel();                                                                          \
    device::let_next_begin();                                                                        \
    attention_rows<device::type>(p);                                                                 \
  }
ATTENTION_ROWS(f32, F32)
ATTENTION_ROWS(f16, F16)
ATTENTION_ROWS(bf16, BF16)
