// Session::run allocates nothing of ours: operator new is replaced and counted, calls that come from another library's
// code (oneDNN, OpenMP) left out.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "onnx/zoo.h"
#include "runtime/session.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

bool from_this_program(void* caller) {
  Dl_info there{}, here{};
  static int anchor = 0;
  if (!dladdr(caller, &there) || !dladdr(&anchor, &here)) return true;
  return there.dli_fbase == here.dli_fbase;
}

void* allocate(std::size_t bytes, void* caller) {
  if (counting.load(std::memory_order_relaxed)) {
    counting = false;  // dladdr may allocate
    if (from_this_program(caller)) ++allocations;
    counting = true;
  }
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace sparkpilot {
namespace {

TEST(Allocation, TheCounterCounts) {
  allocations = 0;
  counting = true;
  auto* text = new std::string(100, 'x');
  counting = false;
  delete text;
  EXPECT_GT(allocations.load(), 0);
}

TEST(Allocation, RunAllocatesNothing) {
  for (const ZooEntry& entry : zoo()) {
    if (std::string(entry.name).rfind("tiny_", 0) != 0) continue;
    SCOPED_TRACE(std::string(entry.name));
    for (const int threads : {1, 2}) {
      Session session(build_zoo_model(entry.name, 1), {.threads = threads});
      session.run();
      allocations = 0;
      counting = true;
      session.run();
      counting = false;
      EXPECT_EQ(allocations.load(), 0);
    }
  }
}

}  // namespace
}  // namespace sparkpilot
