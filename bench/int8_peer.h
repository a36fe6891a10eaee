// oneDNN's convolutions and products of bytes, for kernel_bench: the project has no kernel that calls them.
#pragma once

#include <optional>
#include <string>

#include "ir/op.h"

namespace sparkpilot {

// A case of QConv (channels last) or QGemm as oneDNN does it: u8 times i8 to u8, with a bias, a scale a channel and
// weights in the format that it likes best. Without zero points, which cost it more.
struct Int8Peer {
  double p50_us = 0;
  std::string implementation;
};
// Empty where oneDNN has its reference only.
std::optional<Int8Peer> time_onednn_int8(const std::string& op, const OpCase& op_case, int threads, double ms);

}  // namespace sparkpilot
