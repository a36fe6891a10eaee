#include "emulator/fiber.h"

#include <sys/mman.h>

#include "base/error.h"

// Both ends of a switch return rather than jump, so that the processor's own stack of return addresses stays right: the
// threads of a warp wait at the same place of a kernel, and the prediction then holds (a jump took three times as
// long).
#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl sparkpilot_switch_fiber
.type sparkpilot_switch_fiber,@function
sparkpilot_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sparkpilot_switch_fiber,.-sparkpilot_switch_fiber
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.globl sparkpilot_switch_fiber
.type sparkpilot_switch_fiber,%function
sparkpilot_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size sparkpilot_switch_fiber,.-sparkpilot_switch_fiber
)");
#else
#error "the emulator of CUDA switches stacks on x86-64 and aarch64 only"
#endif

namespace sparkpilot::emulator {
namespace {
constexpr size_t kPage = 4096;
}

FiberStacks::FiberStacks(size_t count) : count_(count) {
  void* const memory =
      mmap(nullptr, count * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail_internal("no address space for {} stacks of the emulator", count);
  memory_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < count; ++i) mprotect(memory_ + i * kBytes, kPage, PROT_NONE);
}

FiberStacks::~FiberStacks() { munmap(memory_, count_ * kBytes); }

void* make_fiber(std::byte* top, void (*entry)()) {
  auto** const words = reinterpret_cast<void**>(top);
#if defined(__x86_64__)
  words[-1] = nullptr;  // where a caller's return address would lie: the stack is aligned as in a called function
  words[-2] = reinterpret_cast<void*>(entry);
  return words - 2 - 6;
#else
  words[-20 + 11] = reinterpret_cast<void*>(entry);  // x30, the link register
  return words - 20;
#endif
}

}  // namespace sparkpilot::emulator
