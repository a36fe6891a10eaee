// The GPUs that the emulated driver can be. Figures are those of NVIDIA's data sheets and of tools' reports; they
// decide which images load, what is refused, and where memory may lie, never a result.
#pragma once

#include <cstddef>
#include <string_view>

namespace emulated_cuda {

struct GpuKind {
  std::string_view key;  // in EMULATED_GPU
  const char* name;
  const char* pci;
  int major, minor, multiprocessors;
  int shared_bytes_per_block, shared_bytes_per_multiprocessor, threads_per_multiprocessor;
  int clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes;
  std::size_t memory_bytes;
  bool integrated, managed, concurrent_managed, pageable;
  bool memory_info_misleads;  // free memory is what no file is cached in, as on a DGX Spark
};

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr GpuKind kGpus[] = {
    {"gb10", "NVIDIA GB10", "000F:01:00.0", 12, 1, 48, 101376, 102400, 1536, 2418000, 4266000, 256, 24 << 20,
     120 * kGiB, true, true, true, true, true},
    {"rtx4090", "NVIDIA GeForce RTX 4090", "0000:01:00.0", 8, 9, 128, 101376, 102400, 1536, 2520000, 10501000, 384,
     72 << 20, 24 * kGiB, false, true, true, false, false},
    {"rtx5090", "NVIDIA GeForce RTX 5090", "0000:02:00.0", 12, 0, 170, 101376, 102400, 1536, 2407000, 14001000, 512,
     96 << 20, 32 * kGiB, false, true, true, true, false},
    {"a100", "NVIDIA A100-SXM4-80GB", "0000:07:00.0", 8, 0, 108, 166912, 167936, 2048, 1410000, 1593000, 5120, 40 << 20,
     80 * kGiB, false, true, true, false, false},
    {"h100", "NVIDIA H100 80GB HBM3", "0000:19:00.0", 9, 0, 132, 232448, 233472, 2048, 1980000, 2619000, 5120, 50 << 20,
     80 * kGiB, false, true, true, false, false},
    {"gh200", "NVIDIA GH200 480GB", "0009:01:00.0", 9, 0, 132, 232448, 233472, 2048, 1980000, 2619000, 6144, 60 << 20,
     96 * kGiB, false, true, true, true, false},
    {"b200", "NVIDIA B200", "0000:1B:00.0", 10, 0, 148, 232448, 233472, 2048, 1965000, 3996000, 8192, 126 << 20,
     180 * kGiB, false, true, true, false, false},
    {"gtx1080", "NVIDIA GeForce GTX 1080", "0000:03:00.0", 6, 1, 20, 49152, 98304, 2048, 1733000, 5005000, 256, 2 << 20,
     8 * kGiB, false, true, true, false, false},
    // The Windows Subsystem for Linux: managed memory may not be touched by the processor while the GPU works.
    {"wsl2", "NVIDIA GeForce RTX 4070 Laptop GPU", "0000:01:00.0", 8, 9, 36, 101376, 102400, 1536, 1980000, 8001000,
     128, 32 << 20, 8 * kGiB, false, true, false, false, false},
};

}  // namespace emulated_cuda
