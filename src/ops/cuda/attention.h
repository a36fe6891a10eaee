// Attention in one kernel: its arguments, and the launches that it wants. Names: attention_<f16 or bf16>_<32, 64 or
// 128> for heads of at most that size, by mma; attention_rows_<storage> for f32, for heads of any size, and for few
// queries.
#pragma once

#include <string>

#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// For each batch and head: y[query] = sum over keys of softmax(scale * q[query] . k[key] + mask[query, key]) * v[key].
// The softmax is computed in fp32; in attention_<storage>_<size> its numerators are rounded to the storage type before
// they weigh v. Where the mask is -infinity a score does not count, even if it is NaN; where it is for all keys of a
// query, y is 0.
//
// A head's elements of a token lie together; all else is by strides, in elements, so that heads need not be transposed.
// Copied 16 bytes at a time where q, k, v and their strides are multiples of that; by elements where not.
struct AttentionArguments {
  const void* q;  // of batch b, head h, query i at b * q_batch + h * q_head + i * q_token
  const void* k;  // of batch b, head h / heads_per_key, key j; likewise v
  const void* v;
  const void* mask;  // or null: b * mask_batch + h * mask_head + i * mask_query + j * mask_key
  void* y;
  int batches, heads, heads_per_key;
  int queries, keys, size;  // size: of a head; at least one key
  int warps_per_query;      // attention_warps_per_query()
  float scale;
  Storage mask_storage;
  long long q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, y_batch, y_head, y_token;
  long long mask_batch, mask_head, mask_query, mask_key;
};
constexpr int kAttentionRowColumns = 256;  // of y that a block of attention_rows makes; longer heads have several

// The kernel that should be used, by storage, queries and size of a head.
std::string attention_name(Storage storage, const AttentionArguments& arguments);
bool attention_is_rows(Storage storage, const AttentionArguments& arguments);
// How many of a block's warps share the keys of a query (or, by mma, of 16 queries) so that blocks cover the GPU.
int attention_warps_per_query(Storage storage, const AttentionArguments& arguments, int multiprocessors);
int attention_most_warps(Storage storage, const AttentionArguments& arguments);
bool attention_accepts(const AttentionArguments& arguments);  // whether the grid is one that CUDA takes
KernelLaunch attention_launch(Storage storage, const AttentionArguments& arguments);

}  // namespace sparkpilot::cuda
