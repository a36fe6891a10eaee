// update_bench: one AdamW step over ten million parameters, compared with a plain copy that moves the same number of
// bytes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "ir/op.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

constexpr int64_t kEach = 2'500'000, kTensors = 4;

Graph update() {
  Graph g;
  g.opsets[""] = 26;
  Builder b(g, "update");
  const ValueId count = g.add_state(Tensor::scalar<int64_t>(0), "t");
  const ValueId next = b.add("Add", {count, b.constant(Tensor::scalar<int64_t>(1))});
  g.set_next(count, next);
  std::vector<ValueId> inputs{b.constant(Tensor::scalar(0.001f)), next, b.constant(Tensor::scalar(1.0f))}, states;
  for (const char* group : {"x", "g", "m", "v"}) {
    for (int i = 0; i < kTensors; ++i) {
      const std::string name = group + std::to_string(i);
      inputs.push_back(*group == 'g' ? g.add_input(name, DType::f32, Shape{kEach})
                                     : g.add_state(Tensor::zeros(DType::f32, Shape{kEach}), name, false));
      if (*group != 'g') states.push_back(inputs.back());
    }
  }
  const std::vector<ValueId> updated = b.add_many("sparkpilot::AdamW", inputs, {}, 3 * kTensors);
  for (size_t i = 0; i < states.size(); ++i) g.set_next(states[i], updated[i]);
  return g;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void measure(int threads) {
  Session session(update(), {.threads = threads});
  // An update reads or writes seven arrays, a copy two: three and a half copies move the same number of bytes.
  std::vector<float> from(static_cast<size_t>(7 * kTensors * kEach / 2), 1), to(from.size());
  std::vector<double> updates, copies;
  for (int turn = 0; turn < 21; ++turn) {
    int64_t start = now_ns();
    session.run();
    updates.push_back(static_cast<double>(now_ns() - start) * 1e-6);
    start = now_ns();
    const ThreadScope scope(threads);
    parallel_for(std::ssize(from), 1 << 14, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin) * sizeof(float));
    });
    copies.push_back(static_cast<double>(now_ns() - start) * 1e-6);
  }
  std::printf("%d threads: AdamW %.2f ms, copy of as many bytes %.2f ms, ratio %.2f (medians of %zu turns)\n", threads,
              median(updates), median(copies), median(updates) / median(copies), updates.size());
}

}  // namespace
}  // namespace sparkpilot

int main() {
  for (int threads = 1; threads <= sparkpilot::available_processors(); threads *= 2) sparkpilot::measure(threads);
}
