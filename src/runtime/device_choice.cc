#include "runtime/device_choice.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "hw/cpu.h"
#include "hw/device_facts.h"
#include "ops/cuda/images.h"
#include "ops/cuda/words_check.h"
#include "runtime/run_value.h"
#include "runtime/tuning_file.h"
#include "tensor/difference.h"
#include "tensor/fill_random.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

// Relative L2 of an output against the CPU's in fp32. Networks were measured at up to a fifth of it on the emulated
// GPU.
double bound_of(const Graph& graph, Precision precision) {
  if (precision == Precision::fp16) return 2e-2;
  bool in_16_bits = precision == Precision::bf16;
  for (int i = 0; i < graph.value_count() && precision == Precision::model; ++i) {
    const DType dtype = graph.value(ValueId{i}).dtype;
    in_16_bits |= is_float(dtype) && bits(dtype) <= 16;
  }
  return in_16_bits ? 1e-1 : 1e-4;
}

// An op that computes in integers or converts to them, for which no kernel of a GPU was written.
std::optional<std::string> integer_op(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    const std::string op = qualified(*graph.node(id).op);
    for (const char* word : {"Quantize", "QLinear", "Integer"}) {
      if (op.find(word) != std::string::npos) return op;
    }
  }
  return {};
}

// One side of the self-check.
Session session_for(const Graph& graph, const SessionOptions& options, const std::string& device, Precision precision,
                    bool keep) {
  SessionOptions own{.device = device, .memory_reserve = options.memory_reserve, .tune = Tune::off};
  own.threads = options.threads > 0 ? options.threads : available_processors();
  own.passes.precision = precision;
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
  return {session_for(graph, options, device, precision, keep),
          session_for(graph, options, "cpu", precision == Precision::model ? precision : Precision::fp32, keep)};
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
    if (!(error <= bound)) {
      found = fmt::format("node \"{}\" (value \"{}\") differs from the CPU by {:.2g} relative L2, allowed {:.2g}",
                          value.node, value.name, error, bound);
    }
  });
  return found;
}

// What a check of the model finds: TuningFile::kPassed, or why the CPU is to be taken.
std::string check_model_on(const Graph& graph, const SessionOptions& options, const std::string& device) {
  const double bound = bound_of(graph, options.passes.precision);
  std::string wrong;
  {
    Sides sides = both(graph, options, device, false);
    if (const std::vector<std::string> left = sides.gpu.nodes_on_cpu(); !left.empty()) {
      return fmt::format("{} of its nodes {} no kernel for a GPU, such as {}", left.size(),
                         left.size() == 1 ? "has" : "have", left.front());
    }
    sides.cpu.run();
    sides.gpu.run();
    for (const TensorInfo& output : sides.cpu.outputs()) {
      const double error = difference_of(sides.gpu.output(output.name), sides.cpu.output(output.name)).relative_l2;
      if (error <= bound) continue;
      wrong = fmt::format("output \"{}\" differs from the CPU by {:.2g} relative L2, allowed {:.2g}", output.name,
                          error, bound);
      break;
    }
  }
  if (wrong.empty()) return TuningFile::kPassed;
  const std::string first = first_difference(graph, options, device, bound);
  return "self-check: " + (first.empty() ? wrong : first);
}

// All of this program's GPU code.
std::string code_key() {
  std::string sizes;
  Graph none;
  for (const cuda::Image& image : cuda::images()) {
    sizes += content_key(none, {},
                         {reinterpret_cast<const char*>(image.begin), static_cast<size_t>(image.end - image.begin)});
  }
  return sizes;
}

// One line of at most 300 printable characters.
std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (text.size() > 300) text.resize(300);
  return text;
}

}  // namespace

DeviceChoice choose_device(const Graph& graph, const SessionOptions& options) {
  DeviceChoice out{.device = "cpu", .check_ms = {}};
  if (cuda::images().empty()) return out;
  constexpr double kWaitSeconds = 2;  // a driver without persistence mode wakes up slowly
  const DeviceFacts facts = device_facts(ask_cuda(kWaitSeconds));
  if (facts.gpus.empty()) return out;
  const std::string device = fmt::format("cuda:{}", facts.best_gpu);
  std::string named = device;
  std::optional<int64_t> begin;  // of the self-check
  const auto time_check = [&] {
    if (begin) out.check_ms = static_cast<double>(now_ns() - *begin) * 1e-6;
  };
  const auto cpu = [&](const std::string& why) {
    time_check();
    if (options.say) options.say(fmt::format("{}: {}; the model runs on the CPU", named, why));
    return out;
  };
  if (const std::optional<std::string> op = integer_op(graph)) return cpu("no kernel for a GPU computes " + *op);
  try {
    const std::shared_ptr<GpuDevice> gpu = GpuDevice::open(facts.best_gpu, {.reserve = options.memory_reserve});
    const GpuFacts& g = gpu->facts();
    named += " (" + g.name + ")";
    static const std::string code = code_key();
    const std::string key = fmt::format("{}, {}.{}, CUDA {}.{}, {}, {}", shortened(g.name), g.capability / 10,
                                        g.capability % 10, g.driver / 1000, g.driver % 1000 / 10, SPARKPILOT_VERSION,
                                        content_key(graph, options.passes, code + "|" + options.kernels));
    TuningFile file(options.tuning_file, cpu_features().model);
    std::string found = file.check(key);
    if (found.empty()) {
      begin = now_ns();
      if (const std::vector<std::string> words = cuda::check_words(*gpu); !words.empty()) {
        return cpu("self-check: " + shortened(words.front()));
      }
      found = shortened(check_model_on(graph, options, device));
      file.keep_check(key, found);
    }
    if (found != TuningFile::kPassed) return cpu(found);
    time_check();
    if (options.say) {
      options.say(fmt::format("{}: the self-check has passed{}; proven by emulation, not run on a GPU yet", named,
                              out.check_ms ? fmt::format(" in {:.0f} ms", *out.check_ms) : ""));
    }
    out.device = device;
    return out;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device) return cpu(error.what());
    if (error.kind() != ErrorKind::user) throw;
    return cpu(fmt::format("it cannot be checked on made-up inputs ({})", error.what()));
  }
}

}  // namespace sparkpilot
