#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "emulator/check.h"
#include "emulator/fiber.h"
#include "emulator/meeting.h"
#include "emulator/thread.h"

namespace sparkpilot::emulator {

constinit thread_local Thread* current = nullptr;

namespace {

constexpr size_t kSharedBytes = 256 << 10;  // more than any GPU gives a block
constexpr size_t kPoisoned = 48 << 10;

std::mutex totals_mutex;
Counters totals;

// What a processor thread needs to run blocks.
struct Runner {
  FiberStacks stacks{kMaxThreads};
  Block block;
  KernelBody body = nullptr;
  const void* arguments = nullptr;
};
thread_local std::unique_ptr<Runner> runner;

// The generator that schedules are drawn from (PCG's output of a 32-bit state).
struct Draw {
  uint32_t state;
  uint32_t below(uint32_t count) {
    state = state * 747796405u + 2891336453u;
    const uint32_t word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
    return static_cast<uint32_t>((uint64_t{(word >> 22) ^ word} * count) >> 32);
  }
  template <typename T>
  void shuffle(T* values, size_t count) {
    for (size_t i = count; i > 1; --i) std::swap(values[i - 1], values[below(static_cast<uint32_t>(i))]);
  }
};

std::string name_of(const Thread& t) { return fmt::format("thread ({},{},{})", t.index.x, t.index.y, t.index.z); }

void switch_to(Thread& next) {
  Thread& me = *current;
  ++me.block->switches;
  current = &next;
  sparkpilot_switch_fiber(&me.stack_pointer, next.stack_pointer);
}

void switch_to_scheduler() {
  Thread& me = *current;
  ++me.block->switches;
  sparkpilot_switch_fiber(&me.stack_pointer, me.block->scheduler);
}

// To the next thread of the warp that may run, straight from one to the other; else to the scheduler.
void give_way() {
  Thread* const me = current;
  for (Thread* next = me->next; next != me; next = next->next) {
    if (next->may_run()) return switch_to(*next);
  }
  if (!me->may_run()) switch_to_scheduler();
}

void wait_at(const uint64_t& gate, const char* word, Place place) {
  Thread& me = *current;
  me.gate = &gate;
  me.closed = gate;
  me.word = word;
  me.place = place;
  while (!me.may_run()) give_way();
  me.gate = nullptr;
}

void open_barrier_if_all_are_here(Block& block) {
  if (block.live == 0 || block.arrived != block.live) return;
  block.arrived = 0;
  block.votes[(block.epoch + 1) % 2] = 0;
  ++block.epoch;
}

// The bottom of every fiber.
void run_thread() {
  Runner& r = *runner;
  try {
    r.body(r.arguments);
    if (!current->copies.empty()) fail_thread("ends while cp.async is under way");
  } catch (const std::exception& error) {
    if (r.block.error.empty()) r.block.error = error.what();
  }
  Thread& me = *current;
  me.done = true;
  --me.block->live;
  open_barrier_if_all_are_here(*me.block);
  for (;;) switch_to_scheduler();
}

void begin_block(Runner& r, const LaunchShape& shape, uint64_t number) {
  Block& block = r.block;
  const size_t count = size_t{shape.block.x} * shape.block.y * shape.block.z;
  block.number = number;
  block.grid = shape.grid;
  block.size = shape.block;
  block.index = {static_cast<unsigned>(number % shape.grid.x),
                 static_cast<unsigned>(number / shape.grid.x % shape.grid.y),
                 static_cast<unsigned>(number / shape.grid.x / shape.grid.y)};
  block.threads.resize(count);
  block.warps.resize(count / kWarpSize);
  if (block.shared.empty()) {
    block.shared.resize(kSharedBytes + 128);
    const auto at = reinterpret_cast<uintptr_t>(block.shared.data());
    block.shared_begin = block.shared.data() + (128 - at % 128) % 128;
  }
  std::fill_n(block.shared_begin, std::max(kPoisoned, block.shared_used), std::byte{0xff});
  block.pieces.assign(1, {nullptr, 0, shape.dynamic_shared_bytes});
  block.shared_used = shape.dynamic_shared_bytes;
  std::fill_n(block.shared_begin, block.shared_used, std::byte{0xff});
  block.epoch = 0;
  block.arrived = 0;
  block.votes[0] = block.votes[1] = 0;
  block.live = static_cast<int>(count);
  block.error.clear();
  for (size_t i = 0; i < count; ++i) {
    Thread& t = block.threads[i];
    const auto n = static_cast<unsigned>(i);
    t.index = {n % shape.block.x, n / shape.block.x % shape.block.y, n / shape.block.x / shape.block.y};
    t.number = static_cast<int>(i);
    t.lane = static_cast<int>(i % kWarpSize);
    t.block = &block;
    t.warp = &block.warps[i / kWarpSize];
    t.warp->threads[t.lane] = &t;
    t.gate = nullptr;
    t.done = false;
    t.copies.clear();
    t.groups.clear();
    t.stack_pointer = make_fiber(r.stacks.top(i), run_thread);
  }
  for (Warp& warp : block.warps) {
    warp.epoch = 0;
    warp.arrived = 0;
  }
}

// Who waits where, a line of the kernel each.
std::string deadlock(const Block& block) {
  std::string out = "threads wait for each other for ever:";
  std::vector<std::pair<const char*, int>> said;
  for (const Thread& t : block.threads) {
    const std::pair<const char*, int> at{t.word, t.place.line};
    if (t.done || said.size() == 4 || std::find(said.begin(), said.end(), at) != said.end()) continue;
    said.push_back(at);
    out += fmt::format(" {} at {} ({}),", name_of(t), t.word, text(t.place));
  }
  return out + fmt::format(" {} of {} have ended", block.threads.size() - static_cast<size_t>(block.live),
                           block.threads.size());
}

void order_threads(Block& block, std::vector<size_t>& warps, bool shuffled, Draw& draw) {
  if (shuffled) draw.shuffle(warps.data(), warps.size());
  for (Warp& warp : block.warps) {
    for (int i = 0; i < kWarpSize; ++i) warp.order[i] = i;
    if (shuffled) draw.shuffle(warp.order, kWarpSize);
    for (int i = 0; i < kWarpSize; ++i) {
      warp.threads[warp.order[i]]->next = warp.threads[warp.order[(i + 1) % kWarpSize]];
    }
  }
}

void run_block(Runner& r, const LaunchShape& shape, const Schedule& schedule, uint64_t number) {
  begin_block(r, shape, number);
  Block& block = r.block;
  block.late_copies = schedule.late_copies;
  block.checker = schedule.checker;
  Draw draw{schedule.seed * 2654435761u + static_cast<uint32_t>(number) * 40503u + 1};
  std::vector<size_t> warps(block.warps.size());
  for (size_t i = 0; i < warps.size(); ++i) warps[i] = i;
  if (schedule.checker) schedule.checker->begin_block(block);
  while (block.live > 0 && block.error.empty()) {
    order_threads(block, warps, schedule.seed != 0, draw);
    bool ran = false;
    for (const size_t w : warps) {
      Warp& warp = block.warps[w];
      for (int i = 0; i < kWarpSize && block.error.empty(); ++i) {
        Thread* const t = warp.threads[warp.order[i]];
        if (!t->may_run()) continue;
        ran = true;
        i = -1;  // it may have let others of the warp go on
        current = t;
        sparkpilot_switch_fiber(&block.scheduler, t->stack_pointer);
        current = nullptr;
      }
    }
    if (!ran && block.error.empty()) block.error = deadlock(block);
  }
  if (schedule.checker) schedule.checker->end_block();
  if (!block.error.empty()) {
    fail_internal("block ({},{},{}): {}", block.index.x, block.index.y, block.index.z, block.error);
  }
}

void check_shape(const LaunchShape& s) {
  const auto out_of_range = [](unsigned value, unsigned most) { return value == 0 || value > most; };
  if (out_of_range(s.grid.x, 0x7fffffff) || out_of_range(s.grid.y, 65535) || out_of_range(s.grid.z, 65535)) {
    fail_internal("a grid of {} x {} x {} blocks is beyond CUDA's limits (1 to 2147483647 x 65535 x 65535)", s.grid.x,
                  s.grid.y, s.grid.z);
  }
  const uint64_t threads = uint64_t{s.block.x} * s.block.y * s.block.z;
  if (threads == 0 || threads > kMaxThreads || s.block.z > 64) {
    fail_internal("a block of {} x {} x {} threads is beyond CUDA's limits (1 to 1024, z to 64)", s.block.x, s.block.y,
                  s.block.z);
  }
  if (threads % kWarpSize != 0) fail_internal("a block of {} threads is no whole number of warps", threads);
  if (s.dynamic_shared_bytes > 227 << 10) {
    fail_internal("{} bytes of shared memory are more than any GPU gives a block", s.dynamic_shared_bytes);
  }
}

}  // namespace

bool is_on_stack_of_kernel(const void* address) { return runner && runner->stacks.holds(address); }

std::string text(const Place& place) {
  const std::string_view file = place.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), place.line);
}

void fail_thread(const std::string& what) {
  if (!current) fail_internal("{}", what);
  fail_internal("{} {}", name_of(*current), what);
}

int barrier(bool predicate, Place place) {
  Block& block = *current->block;
  if (block.arrived == 0) {
    block.place = place;
  } else if (block.place.line != place.line) {
    fail_thread(
        fmt::format("comes to the barrier at {} while others wait at the one at {}", text(place), text(block.place)));
  }
  int& votes = block.votes[block.epoch % 2];
  votes += predicate;
  if (++block.arrived == block.live) {
    open_barrier_if_all_are_here(block);
  } else {
    wait_at(block.epoch, "__syncthreads", place);
  }
  return votes;
}

Warp* come_to_meeting(const char* word, Place place, void* operands) {
  Thread& me = *current;
  Warp& warp = *me.warp;
  if (warp.arrived == 0) {
    warp.word = word;
    warp.place = place;
  } else if (warp.place.line != place.line || std::string_view(warp.word) != word) {
    fail_thread(fmt::format("comes to {} at {} while others of its warp wait at {} at {}", word, text(place), warp.word,
                            text(warp.place)));
  }
  warp.operands[me.lane] = operands;
  if (++warp.arrived == kWarpSize) {
    ++me.block->meetings;
    return &warp;
  }
  wait_at(warp.generation, word, place);
  return nullptr;
}

void leave_meeting(Warp& warp) {
  warp.arrived = 0;
  ++warp.generation;
}

Counters counters() {
  const std::lock_guard lock(totals_mutex);
  return totals;
}

void launch(const LaunchShape& shape, const Schedule& schedule, KernelBody body, const void* arguments) {
  check_shape(shape);
  if (current) fail_internal("a kernel launches a kernel");
  const auto blocks = static_cast<int64_t>(uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z);
  std::atomic<bool> failed = false;
  const auto run = [&](int64_t begin, int64_t end) {
    if (!runner) runner = std::make_unique<Runner>();
    Runner& r = *runner;
    r.body = body;
    r.arguments = arguments;
    try {
      for (int64_t i = begin; i < end && !failed; ++i) {
        run_block(r, shape, schedule, static_cast<uint64_t>(schedule.seed ? blocks - 1 - i : i));
      }
    } catch (...) {
      failed = true;
      throw;
    }
    const std::lock_guard lock(totals_mutex);
    totals.blocks += static_cast<uint64_t>(end - begin);
    totals.switches += std::exchange(r.block.switches, 0);
    totals.meetings += std::exchange(r.block.meetings, 0);
  };
  if (schedule.checker) {
    schedule.checker->begin_launch();
    run(0, blocks);
  } else {
    parallel_for(blocks, 1, run);
  }
}

}  // namespace sparkpilot::emulator
