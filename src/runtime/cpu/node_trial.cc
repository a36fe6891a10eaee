#include "runtime/cpu/node_trial.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

constexpr int64_t kPattern = 4096;        // bytes; an input is filled by repeating it
constexpr double kLongEnoughNs = 50'000;  // long compared with reading the clock
constexpr double kMaxRuns = 64;

bool may_be_index(DType dtype) {
  return dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u32 || dtype == DType::u64;
}

// Values that are valid for `dtype` whatever they mean: uniform in [-1, 1), all byte values, or zero.
Tensor pattern(DType dtype) {
  Random random(1);
  const int64_t count = kPattern / std::max<int64_t>(1, storage_bytes(dtype, 1));
  Tensor out = Tensor::zeros(dtype, Shape{count});
  if (may_be_index(dtype) || dtype == DType::boolean) return out;
  for (int64_t i = 0; i < count; ++i) {
    const double value = is_float(dtype) ? random.uniform(-1, 1) : static_cast<double>(random.integer(0, 7));
    store_element(dtype, out.raw(), i, value);
  }
  return out;
}

void fill(const View& view, const Tensor& source) {
  auto* bytes = static_cast<std::byte*>(view.data);
  const int64_t size = view.bytes(), step = source.bytes();
  parallel_for((size + step - 1) / step, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(bytes + i * step, source.raw(), static_cast<size_t>(std::min(step, size - i * step)));
    }
  });
}

}  // namespace

NodeTrial::NodeTrial(const Problem& problem, int64_t cold_bytes, Clock clock)
    : problem_(problem), cold_bytes_(cold_bytes), clock_(std::move(clock)) {
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TensorType& type = problem.inputs[i];
    if (type.dtype == DType::none) {
      inputs_.push_back({});
    } else if (problem.is_constant(i)) {
      inputs_.push_back(problem.constants[i].view());
    } else {
      owned_.emplace_back(type.dtype, type.shape);
      inputs_.push_back(owned_.back().view());
      filled_.emplace_back(owned_.back().view(), pattern(type.dtype));
    }
  }
  for (const TensorType& type : problem.outputs) {
    if (type.dtype == DType::none) {
      outputs_.push_back({});
      continue;
    }
    owned_.emplace_back(type.dtype, type.shape);
    outputs_.push_back(owned_.back().view());
  }
  workspace_ = std::make_unique<Buffer>(0);
  if (cold_bytes_ > 0) {
    other_ = std::make_unique<Buffer>(cold_bytes_ * thread_count());
    std::memset(other_->data(), 1, static_cast<size_t>(other_->size()));
  }
  sums_.resize(static_cast<size_t>(thread_count()));
  fill_inputs();
}

// Written before each run, as the previous node would.
void NodeTrial::fill_inputs() {
  for (const auto& [view, source] : filled_) fill(view, source);
}

void NodeTrial::cool() {
  if (cold_bytes_ == 0) return;
  parallel_for(std::ssize(sums_), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      const std::byte* own = other_->data() + thread * cold_bytes_;
      int64_t sum = 0;
      for (int64_t at = 0; at < cold_bytes_; at += 64) sum += static_cast<int64_t>(own[at]);
      sums_[static_cast<size_t>(thread)] += sum;
    }
  });
  fill_inputs();
}

void NodeTrial::run(Way& way) {
  way.kernel->run({.node = problem_.node,
                   .inputs = inputs_,
                   .outputs = outputs_,
                   .workspace = workspace_->data(),
                   .state = way.state.get(),
                   .bodies = {},
                   .not_finite = false,
                   .allocate = nullptr});
}

void NodeTrial::add(const Kernel& kernel) {
  ways_.push_back({.kernel = &kernel, .state = nullptr});
  Way& way = ways_.back();
  try {
    if (kernel.prepare) way.state = kernel.prepare(problem_);
    if (way.state && way.state->workspace > workspace_->size()) {
      workspace_ = std::make_unique<Buffer>(way.state->workspace);
    }
    time(way);  // warm-up
    const double once = std::max(1.0, time(way));
    if (cold_bytes_ == 0) way.runs = static_cast<int64_t>(std::clamp(kLongEnoughNs / once, 1.0, kMaxRuns));
  } catch (const Error&) {
    way.fails = true;
  }
}

double NodeTrial::time_ns(size_t index) {
  Way& way = ways_[index];
  if (way.fails) return kNoTime;
  try {
    return time(way);
  } catch (const Error&) {
    way.fails = true;
    return kNoTime;
  }
}

double NodeTrial::time(Way& way) {
  int64_t start = 0, end = 0;
  const auto work = [&] {
    start = clock_();
    for (int64_t i = 0; i < way.runs; ++i) run(way);
    end = clock_();
  };
  if (way.state && way.state->on_cpu.for_threads) {  // the kernel starts its threads itself
    with_team([&] { cool(); });
    work();
  } else {
    with_team([&] {
      cool();
      work();
    });
  }
  return static_cast<double>(end - start) / static_cast<double>(way.runs);
}

}  // namespace sparkpilot
