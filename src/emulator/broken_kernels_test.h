// The kernels of broken_test.cu.
#pragma once

namespace sparkpilot::emulator {

// A block of 128 threads, in grids of two blocks where the fault is between blocks: `count` floats in, 128 out; `wide`
// are 32 x 32 more.
struct BrokenArguments {
  const float* in;
  const float* wide;
  float* out;
  int count;
};

}  // namespace sparkpilot::emulator

// clang-format off
#define SPARKPILOT_BROKEN_KERNELS(X)                                                                         \
  X(no_barrier) X(reused_too_early) X(no_wait) X(wait_for_too_few) X(ends_under_way) X(missed_barrier)       \
  X(missed_shuffle) X(partial_mask) X(no_warp_barrier) X(one_too_far) X(writes_one_too_far) X(beyond_shared) \
  X(beyond_dynamic_shared) X(never_written) X(writes_input) X(two_blocks_write) X(reads_other_block)         \
  X(global_race) X(unaligned_load) X(unaligned_row) X(slow_reads)
// clang-format on
