// Session::run makes no allocations of our own: operator new is replaced and counted, except for calls from another
// library's code (oneDNN, OpenMP). And parameters are in memory only once: tensors' memory is counted where it is
// allocated.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
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

// The present and the largest memory of tensors of at least a megabyte: requested bytes, without the allocator's
// overhead.
struct Held {
  std::atomic<void*> memory{nullptr};
  std::atomic<int64_t> bytes{0};
};
std::array<Held, 256> held;
std::atomic<int64_t> in_use{0}, most_in_use{0};

}  // namespace

extern "C" {
void __libc_free(void* memory) noexcept;

// The functions with which tensors allocate and free memory.
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  void* memory = memalign(alignment, bytes);
  if (bytes < 1 << 20) return memory;
  for (Held& each : held) {
    void* nothing = nullptr;
    if (!each.memory.compare_exchange_strong(nothing, memory)) continue;
    each.bytes = static_cast<int64_t>(bytes);
    in_use += each.bytes;
    most_in_use = std::max(most_in_use.load(), in_use.load());
    return memory;
  }
  std::abort();  // more tensors than table entries
}
void free(void* memory) noexcept {
  for (Held& each : held) {
    if (!memory || each.memory.load() != memory) continue;
    in_use -= each.bytes;
    each.memory = nullptr;
    break;
  }
  __libc_free(memory);
}
}

void* operator new(std::size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

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

TEST(Allocation, AnUpdateHoldsParametersMomentsAndGradientsOnce) {
  // Ten million in all, in tensors that fill their huge pages: others would be rounded up to the next 2 MiB.
  constexpr int64_t kEach = (10 << 18) - 16;
  const int64_t before = in_use, needed = 4 * 4 * kEach * static_cast<int64_t>(sizeof(float));
  most_in_use = before;
  {
    Graph g;
    g.opsets[""] = 26;
    Builder b(g, "update");
    const ValueId count = g.add_state(Tensor::scalar<int64_t>(0), "t");
    const ValueId next = b.add("Add", {count, b.constant(Tensor::scalar<int64_t>(1))});
    g.set_next(count, next);
    std::vector<ValueId> inputs{b.constant(Tensor::scalar(0.001f)), next}, states;
    for (const char* group : {"x", "g", "m", "v"}) {
      for (int i = 0; i < 4; ++i) {
        const std::string name = group + std::to_string(i);
        inputs.push_back(*group == 'g' ? g.add_input(name, DType::f32, Shape{kEach})
                                       : g.add_state(Tensor::zeros(DType::f32, Shape{kEach}), name, false));
        if (*group != 'g') states.push_back(inputs.back());
      }
    }
    const std::vector<ValueId> updated = b.add_many("sparkpilot::AdamW", inputs, {}, 12);
    for (size_t i = 0; i < states.size(); ++i) g.set_next(states[i], updated[i]);
    Session session(std::move(g));
    for (int i = 0; i < 4; ++i) {
      std::span<float> gradient = session.input<float>("g" + std::to_string(i));
      std::fill(gradient.begin(), gradient.end(), 1.0f);
    }
    session.run();
    session.run();
    EXPECT_NEAR(session.state("x3").as<float>()[kEach - 1], -0.002, 1e-5);
  }
  EXPECT_GE(most_in_use.load() - before, needed) << "the count misses tensors";
  EXPECT_LE(static_cast<double>(most_in_use.load() - before), 1.02 * static_cast<double>(needed));
}

}  // namespace
}  // namespace sparkpilot
