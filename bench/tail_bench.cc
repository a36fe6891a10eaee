// How much longer than the median a model's slowest runs take, compared with a bare parallel loop on the same machine.
//
//   tail_bench MODEL [THREADS [SECONDS]]
//
// The loop has as many parallel regions as the model has steps, reads as many bytes as the model has weights, and takes
// as long. Both run in turns, a second each, on the same threads: the loop's ratio of p99 to median is the machine's;
// what the model's ratio has beyond it is ours.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "bench/inputs.h"
#include "onnx/import.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

// The bare loop: `regions` times, every thread multiplies and adds over its part of the data, `repeat` times each.
class Loop {
 public:
  Loop(int64_t regions, int64_t bytes)
      : regions_(regions),
        sums_(16 * static_cast<size_t>(available_processors())),
        data_(static_cast<size_t>(std::max<int64_t>(bytes, 1 << 16) / 4), 0.5f) {}

  void run() {
    with_team([&] { run_regions(); });  // as for the model's steps
  }
  void run_regions() {
    const auto size = static_cast<int64_t>(data_.size()) / regions_;
    for (int64_t r = 0; r < regions_; ++r) {
      const float* part = data_.data() + r * size;
      const int64_t threads = thread_count();
      parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          float sum[16] = {};
          for (int64_t k = 0; k < repeat_; ++k) {
            for (int64_t i = t * size / threads; i + 16 <= (t + 1) * size / threads; i += 16) {
              for (int64_t j = 0; j < 16; ++j) sum[j] += part[i + j] * 0.9f;
            }
          }
          std::copy_n(sum, 16, &sums_[static_cast<size_t>(16 * t)]);
        }
      });
    }
  }

  // Adjusts the loop so that a run takes about this long.
  void calibrate(double ns) {
    for (;;) {
      run();
      const int64_t start = now_ns();
      for (int i = 0; i < 10; ++i) run();
      const double taken = static_cast<double>(now_ns() - start) / 10;
      if (taken > 1.3 * ns && repeat_ == 1) data_.resize(data_.size() / 2);
      else if (repeat_ > 1 || taken > 0.7 * ns) return;
      else repeat_ = std::max<int64_t>(2, static_cast<int64_t>(ns / taken));
    }
  }

 private:
  int64_t regions_, repeat_ = 1;
  std::vector<float> sums_, data_;
};

std::string row(const std::string& name, std::vector<double>& ns) {
  const Statistics s = summarize(ns);
  return fmt::format("{:6} p50 {:.3f} ms, p90 / p50 {:.2f}, p99 / p50 {:.2f}\n", name, s.p50 * 1e-6, s.p90 / s.p50,
                     s.p99 / s.p50);
}

int bench(const std::string& file, int threads, double seconds) {
  Session session(load_onnx(file), {.threads = threads});
  bind_open_dimensions(session);
  for (const TensorInfo& input : session.inputs()) fill_random(session.input(input.name), input.name, 1);
  session.run();
  const ThreadScope scope(session.threads());
  int64_t steps = 0;
  double bytes = 0;
  for (const NodeProfile& node : session.profile().nodes) {
    steps += node.kernel != "view";
    bytes += node.weight_bytes;
  }
  Loop loop(std::max<int64_t>(steps, 1), static_cast<int64_t>(bytes));
  const int64_t start = now_ns();
  for (int i = 0; i < 10; ++i) session.run();
  loop.calibrate(static_cast<double>(now_ns() - start) / 10);

  std::vector<double> ours, bare;
  const auto turn = [](std::vector<double>& times, auto&& work) {
    constexpr int64_t kTurn = 1'000'000'000;
    for (int i = 0; i < 3; ++i) work();  // refills the caches after the other one's turn
    for (const int64_t begin = now_ns(); now_ns() - begin < kTurn;) {
      const int64_t from = now_ns();
      work();
      times.push_back(static_cast<double>(now_ns() - from));
    }
  };
  for (const int64_t begin = now_ns(); static_cast<double>(now_ns() - begin) < seconds * 1e9;) {
    turn(ours, [&] { session.run(); });
    turn(bare, [&] { loop.run(); });
  }
  fmt::print("{}, {} threads, {} steps, {:.1f} MB of weights\n{}{}", file, session.threads(), steps, bytes * 1e-6,
             row("model", ours), row("loop", bare));
  return 0;
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    fmt::print(stderr, "usage: tail_bench MODEL [THREADS [SECONDS]]\n");
    return 2;
  }
  try {
    return sparkpilot::bench(argv[1], argc > 2 ? std::atoi(argv[2]) : 0, argc > 3 ? std::atof(argv[3]) : 4);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
