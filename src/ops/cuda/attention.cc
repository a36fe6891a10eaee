#include "ops/cuda/attention.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot::cuda {
namespace {

constexpr int kTileWarps = 4, kTileQueries = 16, kMostTileSize = 128;
constexpr int kRowWarps = 8;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

int tile_size(int size) { return size <= 32 ? 32 : size <= 64 ? 64 : 128; }

int queries_a_block(bool rows, int warps_per_query) {
  return rows ? kRowWarps / warps_per_query : kTileWarps / warps_per_query * kTileQueries;
}

int chunks(const AttentionArguments& p) { return ceil_div(p.size, kAttentionRowColumns); }

}  // namespace

bool attention_is_rows(Storage storage, const AttentionArguments& p) {
  return storage == Storage::f32 || p.size > kMostTileSize || p.queries <= 2;
}

std::string attention_name(Storage storage, const AttentionArguments& p) {
  const char* const type = storage == Storage::f32 ? "f32" : storage == Storage::f16 ? "f16" : "bf16";
  if (attention_is_rows(storage, p)) return fmt::format("attention_rows_{}", type);
  return fmt::format("attention_{}_{}", type, tile_size(p.size));
}

int attention_most_warps(Storage storage, const AttentionArguments& p) {
  // A tile of keys has 64, of heads of 128 elements 32: 16 for each warp.
  return attention_is_rows(storage, p) ? kRowWarps : p.size > 64 ? 2 : 4;
}

int attention_warps_per_query(Storage storage, const AttentionArguments& p, int multiprocessors) {
  const bool rows = attention_is_rows(storage, p);
  const int most = attention_most_warps(storage, p);
  const long long heads = static_cast<long long>(p.batches) * p.heads;
  int warps = 1;
  while (warps < most && heads * ceil_div(p.queries, queries_a_block(rows, warps)) < 2LL * multiprocessors) warps *= 2;
  return warps;
}

bool attention_accepts(const AttentionArguments& p) {
  return p.keys > 0 && static_cast<long long>(p.heads) * chunks(p) <= 65535 && p.batches <= 65535;
}

KernelLaunch attention_launch(Storage storage, const AttentionArguments& p) {
  const bool rows = attention_is_rows(storage, p);
  return {.grid_x = static_cast<unsigned>(ceil_div(p.queries, queries_a_block(rows, p.warps_per_query))),
          .grid_y = static_cast<unsigned>(rows ? p.heads * chunks(p) : p.heads),
          .grid_z = static_cast<unsigned>(p.batches),
          .threads = static_cast<unsigned>(32 * (rows ? kRowWarps : kTileWarps))};
}

}  // namespace sparkpilot::cuda
