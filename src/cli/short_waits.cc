#include "cli/short_waits.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/clock.h"
#include "base/parallel.h"

namespace sparkpilot::cli {
namespace {

// Says that GOMP_SPINCOUNT is the program's own, not the user's.
constexpr const char* kShortWaits = "_SPARKPILOT_SHORT_WAITS";

// One turn of libgomp's waiting loop, in nanoseconds: the instruction that it pauses with takes 10 to 140 cycles.
double turn_ns() {
  constexpr int kTurns = 1000;
  const std::atomic<int> flag{0};
  double least = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int64_t start = now_ns();
    for (int i = 0; i < kTurns && flag.load(std::memory_order_relaxed) == 0; ++i) {
#ifdef __x86_64__
      __builtin_ia32_pause();
#else
      std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
    }
    least = std::min(least, static_cast<double>(now_ns() - start) / kTurns);
  }
  return std::max(least, 0.1);
}

}  // namespace

std::vector<std::string> variables_of_short_waits() {
  if (!std::getenv(kShortWaits)) return {};
  return {"GOMP_SPINCOUNT", kShortWaits};
}

void restart_with_short_waits(char** argv) {
  constexpr double kWaitNs = 150e3;
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY") || available_processors() == 1) return;
  const std::string turns = std::to_string(static_cast<int64_t>(kWaitNs / turn_ns()));
  // Uses the program's own path: started as /proc/self/exe it would be listed as "exe".
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  if (none || setenv("GOMP_SPINCOUNT", turns.c_str(), 0) != 0) return;
  setenv(kShortWaits, "1", 1);
  execv(self.c_str(), argv);
}

}  // namespace sparkpilot::cli
