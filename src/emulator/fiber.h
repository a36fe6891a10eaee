// Stacks of one processor thread that take turns: the emulator runs each CUDA thread of a block on one.
#pragma once

#include <cstddef>

namespace sparkpilot::emulator {

// Stacks of kBytes each, below each a page that must not be touched, so that an overflow is a crash and not a
// neighbour's changed variable. Memory is taken only by the pages that are used. Fails (internal) if there is no
// memory.
class FiberStacks {
 public:
  static constexpr size_t kBytes = 64 << 10;

  explicit FiberStacks(size_t count);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  // The end of stack i; stacks begin at different lines of the cache.
  std::byte* top(size_t i) const { return memory_ + (i + 1) * kBytes - (i * 5 % 61) * 64 - 256; }
  bool holds(const void* address) const { return address >= memory_ && address < memory_ + count_ * kBytes; }

 private:
  size_t count_;
  std::byte* memory_;
};

// A fiber on the stack that ends at `top`; the first switch to it calls entry(), which must not return. What it returns
// is the fiber's stack pointer, for switch_fiber.
void* make_fiber(std::byte* top, void (*entry)());

// Leaves the running fiber, whose stack pointer is written to *save, and goes on where the one with stack pointer
// `load` left. All registers that a called function must keep are kept; the floating-point mode is shared.
extern "C" void sparkpilot_switch_fiber(void** save, void* load);

}  // namespace sparkpilot::emulator
