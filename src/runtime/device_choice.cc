#include "runtime/device_choice.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "hw/cpu.h"
#include "hw/device_facts.h"
#include "ops/cuda/images.h"
#include "ops/cuda/words_check.h"
#include "passes/precision.h"
#include "runtime/gpu_compile.h"
#include "runtime/gpu_key.h"
#include "runtime/run_value.h"
#include "runtime/tuning_file.h"
#include "tensor/difference.h"
#include "tensor/fill_random.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

constexpr char kSelfCheck[] = "self-check: ";

// Whether activations are rounded to 8 bits: then the least rounding error before that may move one by a step.
bool rounds_activations(const Graph& graph, const PassOptions& passes) {
  if (!passes.largest.empty()) return true;
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    const std::string op = qualified(*graph.node(id).op);
    return std::ranges::any_of(std::to_array<std::string_view>({"Quantize", "QLinear", "Integer"}),
                               [&](std::string_view word) { return op.find(word) != std::string::npos; });
  });
}

// Relative L2 of an output against the CPU's in fp32, or with the same weights in 8 and 4 bits. Networks were measured
// at up to a fifth of it on the emulated GPU, with activations in 8 bits a third.
double bound_of(const Graph& graph, const PassOptions& passes) {
  const Precision precision = passes.precision;
  if (rounds_activations(graph, passes)) return 0.2;
  if (precision == Precision::fp16 || stores_small(precision)) return 2e-2;
  bool in_16_bits = precision == Precision::bf16;
  for (int i = 0; i < graph.value_count() && precision == Precision::model; ++i) {
    const DType dtype = graph.value(ValueId{i}).dtype;
    in_16_bits |= is_float(dtype) && bits(dtype) <= 16;
  }
  return in_16_bits ? 1e-1 : 1e-4;
}

// No output is held to less than its own type can tell apart.
double bound_of(double bound, DType dtype) {
  return std::max(bound, dtype == DType::f16 ? 0x1p-10 : dtype == DType::bf16 ? 0x1p-7 : 0);
}

// One side of the self-check.
Session session_for(const Graph& graph, const SessionOptions& options, const std::string& device, Precision precision,
                    bool keep) {
  SessionOptions own{.device = device, .memory_reserve = options.memory_reserve, .tune = Tune::off};
  own.threads = options.threads > 0 ? options.threads : available_processors();
  own.passes.precision = precision;
  own.passes.largest = options.passes.largest;
  own.passes.off = options.passes.off;
  own.passes.emulate = options.passes.emulate;
  own.kernels = options.kernels;
  if (keep) own.keep = {"all"};
  Session session(graph, own);
  for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : input.dims) sizes.push_back(std::max<int64_t>(dim.size, dim.size < 0 ? 1 : 0));
    if (!input.shape) session.set_shape(input.name, Shape(std::span<const int64_t>(sizes)));
    fill_random(session.input(input.name), input.name, 1);
  }
  session.compile();
  return session;
}

struct Sides {
  Session gpu, cpu;
};

Sides both(const Graph& graph, const SessionOptions& options, const std::string& device, bool keep) {
  const Precision precision = options.passes.precision;
  const bool same = precision == Precision::model || stores_small(precision);  // its weights, activations in f32
  return {session_for(graph, options, device, precision, keep),
          session_for(graph, options, "cpu", same ? precision : Precision::fp32, keep)};
}

// The first node whose result is beyond the bound; empty if only the outputs are.
std::string first_difference(const Graph& graph, const SessionOptions& options, const std::string& device,
                             double bound) {
  Sides sides = both(graph, options, device, true);
  sides.gpu.run();
  sides.cpu.run();
  std::map<std::string, Tensor, std::less<>> expected;
  sides.cpu.visit_values([&](const RunValue& value) {
    if (!value.name.empty()) expected.insert_or_assign(std::string(value.name), in_file_layout(value));
  });
  std::string found;
  sides.gpu.visit_values([&](const RunValue& value) {
    const auto same = expected.find(value.name);
    if (!found.empty() || value.node.empty() || same == expected.end() || !is_float(value.view.dtype)) return;
    const Tensor got = in_file_layout(value);
    if (!(got.shape() == same->second.shape())) return;
    const double error = difference_of(got.view(), same->second.view()).relative_l2;
    const double allowed = bound_of(bound, got.dtype());
    if (!(error <= allowed)) {
      found = fmt::format("node \"{}\" (value \"{}\") differs from the CPU by {:.2g} relative L2, allowed {:.2g}",
                          value.node, value.name, error, allowed);
    }
  });
  return found;
}

// What a check of the model finds: TuningFile::kPassed, or why the CPU is to be taken.
std::string check_model_on(const Graph& graph, const SessionOptions& options, const std::string& device) {
  const double bound = bound_of(graph, options.passes);
  std::string wrong;
  {
    Sides sides = both(graph, options, device, false);
    if (const std::vector<std::string> left = sides.gpu.nodes_on_cpu(); !left.empty()) {
      return fmt::format("{} of its nodes {} no kernel for a GPU, such as {}", left.size(),
                         left.size() == 1 ? "has" : "have", left.front());
    }
    const auto compare = [&](const char* what, const std::string& name, const ConstView& got,
                             const ConstView& expected) {
      const double error = difference_of(got, expected).relative_l2, allowed = bound_of(bound, got.dtype);
      if (error <= allowed || !wrong.empty()) return;
      wrong = fmt::format("{} \"{}\" differs from the CPU by {:.2g} relative L2, allowed {:.2g}", what, name, error,
                          allowed);
    };
    // The second run begins with the states that the first left.
    for (int i = 0; i < 2; ++i) {
      sides.cpu.run();
      sides.gpu.run();
      for (const TensorInfo& output : sides.cpu.outputs())
        compare("output", output.name, sides.gpu.output(output.name), sides.cpu.output(output.name));
    }
    for (const std::string& state : sides.cpu.states())
      compare("state", state, sides.gpu.state(state), sides.cpu.state(state));
  }
  if (wrong.empty()) return TuningFile::kPassed;
  const std::string first = first_difference(graph, options, device, bound);
  return kSelfCheck + (first.empty() ? wrong : first);
}

}  // namespace

DeviceChoice choose_device(const Graph& graph, const SessionOptions& asked) {
  SessionOptions options = asked;
  options.passes.precision = precision_on("cuda", asked.passes.precision);
  DeviceChoice out;
  if (cuda::images().empty()) return out;
  const DeviceFacts facts = ask_device_facts();
  std::string named = "libcuda";
  std::optional<int64_t> begin;  // of the self-check
  const auto time_check = [&] {
    if (begin) out.check_ms = static_cast<double>(now_ns() - *begin - out.ptx_ns) * 1e-6;
  };
  const auto cpu = [&](const std::string& why) {
    time_check();
    if (options.say) options.say(fmt::format("{}: {}; the model runs on the CPU", named, why));
    return out;
  };
  if (facts.broken) return cpu(facts.problem);
  if (facts.gpus.empty() && facts.older_gpu) {
    named = "the GPU";
    return cpu(facts.problem);
  }
  if (facts.gpus.empty()) return out;
  const std::string device = fmt::format("cuda:{}", facts.best_gpu);
  named = device;
  try {
    std::shared_ptr<GpuDevice> gpu = GpuDevice::open(facts.best_gpu, {.reserve = options.memory_reserve});
    const GpuFacts& g = gpu->facts();
    named += " (" + g.name + ")";
    const std::string key = gpu_key(g) + ", " + content_key(graph, options.passes, options.kernels);
    TuningFile file(options.tuning_file, cpu_features().model);
    std::string found = file.check(key);
    if (found.empty()) {
      const int64_t compiled_before = gpu->ptx_ns();
      begin = now_ns();
      if (const std::vector<std::string> words = cuda::check_words(*gpu); !words.empty()) {
        return cpu(kSelfCheck + shortened(words.front()));
      }
      found = shortened(check_model_on(graph, options, device));
      file.keep_check(key, found);
      out.ptx_ns = gpu->ptx_ns() - compiled_before;
    }
    if (options.say && out.ptx_ns > 0) options.say(ptx_text(g, out.ptx_ns));
    if (found != TuningFile::kPassed) {
      const bool differs = found.starts_with(kSelfCheck);
      const bool in_fp16 = differs && asked.passes.precision == Precision::automatic;
      return cpu(found + (in_fp16 ? ", in fp16; --precision fp32 was not tried" : ""));
    }
    time_check();
    if (options.say) {
      options.say(fmt::format("{}: the self-check has passed{}; {}", named,
                              out.check_ms ? fmt::format(" in {:.0f} ms", *out.check_ms) : "", cuda::kRunOn));
    }
    out.gpu = std::move(gpu);
    return out;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device) return cpu(error.what());
    if (error.kind() != ErrorKind::user) throw;
    return cpu(fmt::format("it cannot be checked on made-up inputs ({})", error.what()));
  }
}

}  // namespace sparkpilot
