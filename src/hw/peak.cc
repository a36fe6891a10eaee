#include "hw/peak.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/parallel.h"
#include "hw/caches.h"
#include "hw/peak_memory.h"
#include "hw/peak_units.h"

namespace sparkpilot {
namespace {

constexpr size_t kPage = 4096;

double seconds_since(int64_t begin_ns) { return static_cast<double>(std::max<int64_t>(1, now_ns() - begin_ns)) * 1e-9; }

// Runs `piece(thread)` on every thread at once, `repeats` times: the sum of each thread's best rate. So a thread that
// is held up, or runs on a slower core, does not reduce the others' results. A piece does not count if another thread
// had not started or had finished meanwhile: alone on a core that two threads share it would be too fast.
template <typename Piece>
double best_sum(int threads, int repeats, double work, const Piece& piece) {
  std::vector<double> best(static_cast<size_t>(threads) * 8);  // one cache line per thread
  std::atomic<int> begun = 0, done = 0;
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      ++begun;
      double any = 0, together = 0;
      for (int i = 0; i < repeats; ++i) {
        const bool all = begun == threads;
        const int64_t start = now_ns();
        piece(static_cast<size_t>(thread));
        const double rate = work / seconds_since(start);
        any = std::max(any, rate);
        if (all && done == 0) together = std::max(together, rate);
      }
      ++done;
      best[static_cast<size_t>(thread) * 8] = together > 0 ? together : any;
    }
  });
  double sum = 0;
  for (const double each : best) sum += each;
  return sum;
}

// For a resource that the threads share, such as memory: the best total rate of `repeats`. A repeat is `chunks` per
// thread, begins when all threads are ready (or one has waited long enough for a thread that the system holds up), and
// ends when the first thread has finished.
template <typename Chunk>
double best_together(int threads, int repeats, size_t chunks, double work, const Chunk& chunk) {
  constexpr int64_t kLongestWait = 300'000;
  struct Repeat {
    std::atomic<int> there = 0;
    std::atomic<int64_t> start = 0, done = 0;
    std::atomic<bool> over = false;
    double rate = 0;
  };
  std::vector<Repeat> all(static_cast<size_t>(repeats));
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      for (Repeat& repeat : all) {
        ++repeat.there;
        const int64_t since = now_ns();
        while (repeat.there < threads && repeat.start == 0 && now_ns() - since < kLongestWait) {
        }
        int64_t nobody = 0;
        repeat.start.compare_exchange_strong(nobody, now_ns());
        for (size_t c = 0; c < chunks && !repeat.over; ++c, ++repeat.done) chunk(static_cast<size_t>(thread), c);
        if (repeat.over.exchange(true)) continue;
        repeat.rate = static_cast<double>(repeat.done) * work / seconds_since(repeat.start);
      }
    }
  });
  double best = 0;
  for (const Repeat& repeat : all) best = std::max(best, repeat.rate);
  return best;
}

// Memory with one part per thread, touched by that thread, in large pages if the system has some.
class Parts {
 public:
  Parts(int threads, size_t part) : part_(part), bytes_(part * static_cast<size_t>(threads) + kLargePage) {
    void* const data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return;
    base_ = static_cast<std::byte*>(data);
    data_ = base_ + (kLargePage - reinterpret_cast<uintptr_t>(data) % kLargePage) % kLargePage;
    madvise(data_, bytes_ - kLargePage, MADV_HUGEPAGE);
    parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) {
        std::byte* const mine = of(static_cast<size_t>(thread));
        for (size_t at = 0; at < part_; at += kPage) mine[at] = std::byte{1};
      }
    });
  }
  ~Parts() {
    if (base_) munmap(base_, bytes_);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  explicit operator bool() const { return data_ != nullptr; }
  std::byte* of(size_t thread) const { return data_ + part_ * thread; }

 private:
  static constexpr size_t kLargePage = size_t{2} << 20;
  size_t part_, bytes_;
  std::byte *base_ = nullptr, *data_ = nullptr;
};

std::vector<UnitPeak> measure_units(int threads) {
  constexpr int kRepeats = 8;
  std::vector<UnitPeak> out;
  for (const UnitLoop& loop : unit_loops()) {
    const double work = loop.flops_a_round * static_cast<double>(loop.rounds);
    out.push_back({std::string(loop.name), loop.arithmetic,
                   best_sum(threads, kRepeats, work, [&](size_t) { loop.run(loop.rounds); })});
  }
  return out;
}

// How a level is measured: each thread works through its own `part` bytes.
struct LevelPlan {
  size_t part = 0;
  bool shared = false;  // shared between threads
  int repeats = 8;
};

LevelPeak measure_level(const LevelPlan& plan, int threads, const Parts& parts) {
  constexpr size_t kPiece = size_t{4} << 20, kChunk = size_t{256} << 10;
  LevelPeak out;
  for (const MoveLoop& loop : move_loops()) {
    double rate = 0;
    if (plan.shared) {
      const auto chunk = [&](size_t thread, size_t c) { loop.run(parts.of(thread) + c * kChunk, kChunk); };
      rate = best_together(threads, plan.repeats, std::max<size_t>(1, plan.part / kChunk), loop.moved * kChunk, chunk);
    } else {
      const size_t passes = std::max<size_t>(1, kPiece / plan.part);
      rate = best_sum(threads, plan.repeats, loop.moved * static_cast<double>(plan.part * passes), [&](size_t thread) {
        for (size_t pass = 0; pass < passes; ++pass) loop.run(parts.of(thread), plan.part);
      });
    }
    out.bytes_per_second = std::max(out.bytes_per_second, rate);
    if (loop.only_reads) out.reads_per_second = std::max(out.reads_per_second, rate);
  }
  return out;
}

size_t whole_pages(int64_t bytes) { return std::max<size_t>(1, static_cast<size_t>(bytes) / kPage) * kPage; }

// Half of a level's capacity, a quarter if others use it too; more than the level before it can hold, but no more than
// fits.
std::vector<LevelPlan> plan_levels(const std::vector<int64_t>& caches, int threads, bool with_memory) {
  std::vector<LevelPlan> plans;
  int64_t nearer = 0;
  for (size_t i = 0; i < caches.size(); ++i) {
    const bool shared = i > 1;
    const int64_t all = caches[i] / threads, part = std::max(all / (shared ? 4 : 2), 2 * nearer);
    plans.push_back({whole_pages(std::min(part, all / 4 * 3)), shared, shared ? 8 : 16});
    nearer = all;
  }
  if (!with_memory) return plans;
  constexpr int64_t kMin = int64_t{64} << 20, kMax = int64_t{1} << 30;
  plans.push_back({whole_pages(std::clamp(3 * caches.back(), kMin, kMax) / threads), true, 2});
  return plans;
}

std::vector<LevelPeak> measure_levels(const std::vector<int64_t>& caches, int threads, bool with_memory) {
  std::vector<LevelPlan> plans = plan_levels(caches, threads, with_memory);
  size_t part = 0;
  for (const LevelPlan& plan : plans) part = std::max(part, plan.part);
  const Parts parts(threads, part);
  std::vector<LevelPeak> out;
  for (size_t i = 0; i <= caches.size(); ++i) {
    const bool memory = i == caches.size();
    out.push_back(parts && i < plans.size() ? measure_level(plans[i], threads, parts) : LevelPeak{});
    out.back().name = memory ? "memory" : "L" + std::to_string(i + 1);
    out.back().bytes = memory ? std::numeric_limits<double>::infinity() : static_cast<double>(caches[i]);
  }
  return out;
}

}  // namespace

std::string_view arithmetic_name(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f16: return "fp16";
    case Arithmetic::bf16: return "bf16";
    case Arithmetic::i8: return "int8";
    case Arithmetic::f32: break;
  }
  return "fp32";
}

const UnitPeak& Peak::unit(Arithmetic arithmetic) const {
  const UnitPeak* best = &units.at(0);
  for (const UnitPeak& each : units) {
    const bool fits = each.arithmetic == Arithmetic::f32 || each.arithmetic == arithmetic;
    if (fits && each.flops_per_second > best->flops_per_second) best = &each;
  }
  return *best;
}

void keep_best(Peak& best, const Peak& other) {
  for (const UnitPeak& unit : other.units) {
    const auto at = std::find_if(best.units.begin(), best.units.end(), [&](const UnitPeak& each) {
      return each.name == unit.name && each.arithmetic == unit.arithmetic;
    });
    if (at == best.units.end()) best.units.push_back(unit);
    else at->flops_per_second = std::max(at->flops_per_second, unit.flops_per_second);
  }
  for (const LevelPeak& level : other.levels) {
    const auto at = std::find_if(best.levels.begin(), best.levels.end(),
                                 [&](const LevelPeak& each) { return each.name == level.name; });
    if (at == best.levels.end()) {
      best.levels.push_back(level);
      continue;
    }
    at->reads_per_second = std::max(at->reads_per_second, level.reads_per_second);
    at->bytes_per_second = std::max(at->bytes_per_second, level.bytes_per_second);
  }
}

Peak measure_peak(int threads, double working_set) {
  static std::mutex mutex;
  static std::map<int, Peak> known;
  const ThreadScope scope(threads);
  const int team = std::clamp(threads, 1, thread_count());  // a build without threads has one thread
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(threads, Peak{.threads = team});
  const std::vector<int64_t> caches = cache_bytes(*system_source(), team);
  double held = 0;
  for (const int64_t each : caches) held += static_cast<double>(each);
  keep_best(at->second, {.units = measure_units(team), .levels = measure_levels(caches, team, working_set > held)});
  return at->second;
}

}  // namespace sparkpilot
