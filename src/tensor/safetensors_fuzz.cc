// Any bytes as a safetensors file: tensors or an Error, never anything else. What was read is within the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot;
  const int fd = ::memfd_create("fuzz.safetensors", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) __builtin_trap();
  try {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : load_safetensors("/proc/self/fd/" + std::to_string(fd)).tensors)
      bytes += tensor.bytes();
    if (bytes > static_cast<int64_t>(size)) __builtin_trap();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  ::close(fd);
  return 0;
}
