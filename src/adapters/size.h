// How large an adapter may be, and in which type it is stored, as people say it.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace sparkpilot {

// Bytes of "1%" (of the base's tensors), "200kB", "3MB" or "4096". Fails (user) naming `flag` on anything else.
int64_t size_limit(const std::string& text, const Graph& base, const std::string& flag);

// "fp32", "fp16", "bf16", or "auto": the 16-bit type that most of the layers' weights have, else f32.
DType stored_type(const std::string& text, const Graph& base);
std::string stored_name(DType dtype);

}  // namespace sparkpilot
