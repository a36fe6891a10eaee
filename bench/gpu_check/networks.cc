#include "networks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "bench/inputs.h"
#include "bench/report.h"
#include "ir/infer.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "ops/check.h"
#include "passes/pass.h"
#include "passes/precision.h"
#include "passes/small_weights.h"
#include "tensor/difference.h"

namespace sparkpilot::gpu_check {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 64;

std::vector<Network> files_of(const fs::path& folder) {
  std::vector<Network> out;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".onnx") out.push_back({entry.path().filename().string(), entry.path()});
  }
  if (error) fail("--models: {}: {}", folder.string(), error.message());
  std::ranges::sort(out, {}, &Network::name);
  if (out.size() > kMostFiles)
    fail("--models: {} holds {} models, at most {} are taken", folder.string(), out.size(), kMostFiles);
  return out;
}

// Beyond what rounding alone costs the stand-ins: on the emulator at most 1.2e-6, 7e-3 and 8.4e-2.
double allowed(Precision precision) {
  return precision == Precision::fp32 ? 5e-5 : precision == Precision::fp16 ? 2e-2 : 2e-1;
}
// Of activations in E4M3: sums that differ in their last bits give a neighbouring code here and there, and that other
// ones, so that in the end two runs are as far from each other as each is from what it rounds: that, with room, and
// less than zeros would be. In the tiny networks a run without such a code is likely, and the nearest one is held to
// the same codes.
constexpr double kAllowedOfCodes = 5e-3, kAllowedOfCost = 2, kMostOfCodes = 0.9;

constexpr int kRuns = 3;  // with other inputs each, so that states count

std::vector<std::vector<Tensor>> several_runs(Session& session) {
  std::vector<std::vector<Tensor>> out;
  for (int run = 0; run < kRuns; ++run) {
    fill(session, static_cast<uint64_t>(7 + run));
    session.run();
    out.push_back(outputs_of(session));
  }
  return out;
}

using Runs = std::vector<std::vector<Tensor>>;  // the outputs of each

// The greatest relative L2 of an output over all runs.
double greatest_apart(const Runs& a, const Runs& b, size_t output) {
  double most = 0;
  for (size_t run = 0; run < a.size(); ++run)
    most = std::max(most, difference_of(a[run][output].view(), b[run][output].view()).relative_l2);
  return most;
}

// `bounds`: of each output.
Json compared(const Session& session, const Runs& got, const Runs& expected, std::string_view precision,
              const std::vector<double>& bounds, std::optional<double> bound_of_nearest,
              std::vector<std::string>& failures) {
  Json out = Json::array();
  for (size_t i = 0; i < session.outputs().size(); ++i) {
    Difference worst, nearest;
    for (size_t run = 0; run < got.size(); ++run) {
      const Difference one = difference_of(got[run][i].view(), expected[run][i].view());
      if (run == 0 || !(one.relative_l2 <= worst.relative_l2)) worst = one;
      if (run == 0 || one.relative_l2 < nearest.relative_l2) nearest = one;
    }
    const std::string& name = session.outputs()[i].name;
    // Where it is stored in 16 bits, some of its elements are rounded to a neighbour.
    const DType dtype = got[0][i].dtype();
    const auto hold = [&](const Difference& apart, double allowed, const char* runs) {
      const double most = dtype == DType::f32 ? allowed : std::max(allowed, default_tolerance(dtype));
      if (apart.relative_l2 <= most) return;
      failures.push_back(fmt::format("{}: output {} differs from the CPU's by {:.3g} (relative L2){}, allowed {:.3g}",
                                     precision, name, apart.relative_l2, runs, most));
    };
    hold(worst, bounds[i], "");
    if (bound_of_nearest) hold(nearest, *bound_of_nearest, " in the nearest run");
    out.push_back({{"output", name}, {"relative_l2", worst.relative_l2}, {"max_abs", worst.max_abs}});
  }
  return out;
}

// The largest magnitudes of values in fp32 on one sample, by their names.
std::map<std::string, double> largest_of(const Graph& graph) {
  SessionOptions options{.device = "cpu"};
  options.passes.precision = Precision::fp32;
  options.passes.off = {"all"};
  options.keep = {"all"};
  Session session(graph, options);
  bind_open_dimensions(session);
  fill(session, 7);
  session.run();
  std::map<std::string, double> out;
  session.visit_values([&](const RunValue& value) {
    if (value.name.empty() || value.view.dtype != DType::f32) return;
    double largest = 0;
    for (const float x : std::span(value.view.as<float>(), static_cast<size_t>(value.view.elements())))
      largest = std::max(largest, std::fabs(double{x}));
    if (std::isnormal(largest)) out[std::string(value.name)] = largest;
  });
  return out;
}

// The network with weights and what products read in E4M3, as a calibrated file has them, the rest in f32; without
// nodes if it has nothing for it.
Graph in_codes(const Graph& graph) {
  const std::map<std::string, double> largest = largest_of(graph);
  Graph out = graph;
  infer(out);
  widen_to_fp32(out);
  if (store_small(out, plan_small(out, Precision::fp8), largest) == 0) return {};
  return out;
}

Json check_network(const Network& network, const Options& options, std::vector<std::string>& failures) {
  Json out{{"network", network.name}, {"precisions", Json::array()}};
  const Graph graph = network.load();
  const auto on_cpu = [](const Graph& net, Precision precision) {
    Ready cpu = ready(net, "cpu", precision);
    return several_runs(cpu.session);
  };
  const Runs in_fp32 = on_cpu(graph, Precision::fp32);
  const auto check = [&](const Graph& net, std::string_view name, Precision precision, const Runs& expected,
                         const std::vector<double>& bounds, std::optional<double> bound_of_nearest = {}) {
    Ready gpu = ready(net, options.device(), precision);
    Session& session = gpu.session;
    const auto got = several_runs(session);
    Json one{{"precision", name}, {"load_ms", gpu.load_ms}, {"states", session.states().size()}};
    one["outputs"] = compared(session, got, expected, name, bounds, bound_of_nearest, failures);
    session.reset_states();
    const auto again = several_runs(session);
    for (int run = 0; run < kRuns; ++run) {
      if (!same_bits(got[static_cast<size_t>(run)], again[static_cast<size_t>(run)]))
        failures.push_back(fmt::format("{}: run {} gives other bits when it is repeated", name, run + 1));
    }
    const Session::Transfers moved = session.transfers();
    one["launches"] = moved.launches;
    one["copies_to_gpu"] = moved.to_gpu;
    one["copies_to_host"] = moved.to_host;
    one["bytes_to_gpu"] = moved.bytes_to_gpu;
    one["bytes_to_host"] = moved.bytes_to_host;
    one["nodes_on_cpu"] = session.nodes_on_cpu();
    out["precisions"].push_back(std::move(one));
  };
  const size_t outputs = in_fp32[0].size();
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    check(graph, sparkpilot::name(precision), precision, in_fp32, std::vector<double>(outputs, allowed(precision)));
  }
  const char* const kCoded = "fp8, calibrated, as a file";
  try {
    const Graph coded = in_codes(graph);
    if (coded.node_count() == 0) return out;
    const Runs in_codes = on_cpu(coded, Precision::model);
    std::vector<double> bounds;
    for (size_t i = 0; i < outputs; ++i)
      bounds.push_back(
          std::clamp(kAllowedOfCost * greatest_apart(in_codes, in_fp32, i), kAllowedOfCodes, kMostOfCodes));
    std::optional<double> nearest;
    if (network.name.starts_with("tiny_")) nearest = kAllowedOfCodes;
    check(coded, kCoded, Precision::model, in_codes, bounds, nearest);
  } catch (const Error& error) {  // the other precisions' figures stay
    failures.push_back(fmt::format("{}: {}", kCoded, error.what()));
  }
  return out;
}

}  // namespace

Graph Network::load() const { return file.empty() ? build_zoo_model(name, 1) : load_onnx(file); }

std::vector<Network> networks(const Options& options, bool full_size_only) {
  std::vector<Network> tiny, full, big, out;
  for (const ZooEntry& entry : zoo()) {
    auto& where = entry.name.starts_with("tiny_") ? tiny : entry.big ? big : full;
    where.push_back({std::string(entry.name), {}});
  }
  if (!full_size_only || options.tiny) out = tiny;
  if (!options.tiny) out.insert(out.end(), full.begin(), full.end());
  if (!options.models.empty()) {
    const std::vector<Network> files = files_of(options.models);
    out.insert(out.end(), files.begin(), files.end());
  }
  if (!options.tiny) out.insert(out.end(), big.begin(), big.end());
  std::erase_if(out, [&](const Network& n) { return !options.takes(n.name); });
  return out;
}

std::vector<std::string> names_of(std::span<const Network> networks) {
  std::vector<std::string> names;
  for (const Network& network : networks) names.push_back(network.name);
  return names;
}

Ready ready(const Graph& graph, const std::string& device, Precision precision, const Timed& timed) {
  SessionOptions options{.device = device, .profile = timed.profile, .gpu_times = timed.gpu_times};
  if (device != "cpu") options.threads = 1;
  options.passes.precision = precision;
  // In the folder that main() makes for all processes of a call.
  if (timed.tuned) options.tuning_file = (fs::temp_directory_path() / "tuning.json").string();
  const int64_t start = now_ns();
  Ready out{Session(graph, options)};
  bind_open_dimensions(out.session);
  fill(out.session, 1);
  out.session.compile();
  out.load_ms = static_cast<double>(now_ns() - start) * 1e-6;
  return out;
}

void fill(Session& session, uint64_t seed) {
  for (const TensorInfo& input : session.inputs()) fill_random(session.input(input.name), input.name, seed);
}

void put_nodes(Json& out, Profile profile) {
  constexpr size_t kSlowest = 40;
  struct OfOp {
    size_t nodes = 0, launches = 0;
    double us = 0;
  };
  std::map<std::string, OfOp> by_op;
  for (const NodeProfile& node : profile.nodes) {
    OfOp& of = by_op[node.op];
    of.nodes += 1;
    of.launches += node.launches.size();
    of.us += node.mean_ns() * 1e-3;
  }
  out["nodes"] = profile.nodes.size();
  Json& ops = out["ops"] = Json::array();
  for (const auto& [op, of] : by_op)
    ops.push_back({{"op", op}, {"nodes", of.nodes}, {"launches", of.launches}, {"us", of.us}});
  std::ranges::stable_sort(profile.nodes, std::greater<>(), &NodeProfile::total_ns);
  Json& slowest = out["slowest_nodes"] = Json::array();
  for (const NodeProfile& node : std::span(profile.nodes).first(std::min(kSlowest, profile.nodes.size()))) {
    slowest.push_back({{"node", node.name},
                       {"op", node.op},
                       {"kernel", node.kernel},
                       {"shape", node.shape},
                       {"launches", sparkpilot::to_json(std::span<const LaunchProfile>(node.launches))},
                       {"us", node.mean_ns() * 1e-3}});
  }
}

std::vector<Tensor> outputs_of(const Session& session) {
  std::vector<Tensor> out;
  for (const TensorInfo& info : session.outputs()) {
    const ConstView view = session.output(info.name);
    Tensor copy(view.dtype, view.shape);
    if (view.bytes() > 0) std::memcpy(copy.raw(), view.data, static_cast<size_t>(view.bytes()));
    out.push_back(std::move(copy));
  }
  return out;
}

bool same_bits(std::span<const Tensor> a, std::span<const Tensor> b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) {
    return x.bytes() == y.bytes() && std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.bytes())) == 0;
  });
}

Outcome check_networks(const Options& options, const Json& go_on) {
  const std::vector<Network> all = networks(options);
  const auto held = GpuDevice::open(options.ordinal);  // else each session would begin and end the driver's context
  return each_of(options, go_on, "networks", names_of(all), [&](size_t i, std::vector<std::string>& failures) {
    return check_network(all[i], options, failures);
  });
}

}  // namespace sparkpilot::gpu_check
