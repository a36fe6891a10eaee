#include "ops/cuda/pooling.h"

namespace sparkpilot::cuda {
namespace {

int elements_of_piece(Storage storage) { return storage == Storage::f32 ? 4 : 8; }
std::string named(const std::string& kernel, Storage storage) {
  return kernel + (storage == Storage::f32 ? "_f32" : storage == Storage::f16 ? "_f16" : "_bf16");
}
unsigned blocks(long long threads) { return static_cast<unsigned>((threads + 127) / 128); }

}  // namespace

bool pool_pieces_accepts(const PoolArguments& p, Storage storage) {
  return !p.channels_first && p.channels % elements_of_piece(storage) == 0;
}

std::string pool_kernel(const PoolArguments& p, Storage storage) {
  return named(pool_pieces_accepts(p, storage) ? "pool" : "pool_any", storage);
}

KernelLaunch pool_launch(const PoolArguments& p, Storage storage) {
  const long long all = 1LL * p.batch * p.channels * p.out_height * p.out_width;
  return {.grid_x = blocks(pool_pieces_accepts(p, storage) ? all / elements_of_piece(storage) : all), .threads = 128};
}

std::string global_pool_kernel(const PoolArguments& p, Storage storage) {
  if (p.channels_first) return named("global_pool_planes", storage);
  return named(pool_pieces_accepts(p, storage) ? "global_pool" : "global_pool_any", storage);
}

KernelLaunch global_pool_launch(const PoolArguments& p, Storage storage) {
  const auto batch = static_cast<unsigned>(p.batch);
  if (p.channels_first) return {.grid_x = blocks(32LL * p.batch * p.channels), .threads = 128};
  const int of_block = pool_pieces_accepts(p, storage) ? 4 * elements_of_piece(storage) : 32;
  return {.grid_x = static_cast<unsigned>((p.channels + of_block - 1) / of_block), .grid_y = batch, .threads = 128};
}

}  // namespace sparkpilot::cuda
