// The GPU code in this program: fat binaries with an image for each architecture, one for each source of kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tensor/gpu.h"

namespace sparkpilot::cuda {

struct Image {
  std::string_view source;  // "rows" of rows.cu
  const std::byte* begin;
  const std::byte* end;
};
// Empty in a build without nvcc: such a program computes on the CPU only.
std::span<const Image> images();

// On which GPUs the kernels have run: said where a GPU is chosen.
inline constexpr std::string_view kRunOn = "run on an H100 and an H200; on other GPUs tested in an emulator only";

// What the images were compiled for, as a list of texts such as "sm_90" and "compute_90"; empty without images.
std::span<const std::string_view> image_targets();

// The code of a kernel that was loaded, in words: "sm_90"; or, where no image is for that architecture, that the driver
// compiled it: "sm_100, compiled from compute_90 by the driver".
std::string image_of(const GpuFunction& kernel);

// The kernel `name` of kernels.inc on this GPU, loaded at first use; not inside a recording. `dynamic_shared`: the most
// bytes that launches will ask for. Fails (device) if this program holds no GPU code or none for this GPU.
const GpuFunction& kernel_on(GpuDevice& gpu, std::string_view name, int64_t dynamic_shared = 0);

}  // namespace sparkpilot::cuda
