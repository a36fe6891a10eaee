// What g++ calls at each access to memory of code that it compiles with -fsanitize=thread. The sanitizer's own library
// is not linked; only kernels are compiled so.
#include "emulator/check.h"

namespace sparkpilot::emulator {
namespace {

void look(const void* address, size_t bytes, Access kind, const void* code) {
  if (Thread* const thread = current) {
    if (Checker* const checker = thread->block->checker) checker->access(*thread, address, bytes, kind, {code, {}});
  }
}

}  // namespace
}  // namespace sparkpilot::emulator

using sparkpilot::emulator::Access;
using sparkpilot::emulator::look;

// NOLINTBEGIN: the sanitizer's names.
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define SPARKPILOT_ACCESS(bytes)                                                                            \
  void __tsan_read##bytes(void* p) { look(p, bytes, Access::read, __builtin_return_address(0)); }           \
  void __tsan_write##bytes(void* p) { look(p, bytes, Access::write, __builtin_return_address(0)); }         \
  void __tsan_unaligned_read##bytes(void* p) { look(p, bytes, Access::read, __builtin_return_address(0)); } \
  void __tsan_unaligned_write##bytes(void* p) { look(p, bytes, Access::write, __builtin_return_address(0)); }
SPARKPILOT_ACCESS(1)
SPARKPILOT_ACCESS(2)
SPARKPILOT_ACCESS(4)
SPARKPILOT_ACCESS(8)
SPARKPILOT_ACCESS(16)
#undef SPARKPILOT_ACCESS
void __tsan_read_range(void* p, size_t bytes) { look(p, bytes, Access::read, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t bytes) { look(p, bytes, Access::write, __builtin_return_address(0)); }
}
// NOLINTEND
