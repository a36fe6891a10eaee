// Networks on the GPU in several precisions and on the CPU, timed in turns; and beside other engines.
#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "bench/gpu_figures.h"
#include "bench/interleaved.h"
#include "bench/peer_bench.h"
#include "bench/report.h"
#include "networks.h"
#include "onnx/export.h"

namespace sparkpilot::gpu_check {
namespace {

namespace fs = std::filesystem;

struct Variant {
  const char* device;
  const char* precision;
  Precision as;
};

// The CPU is the last.
std::vector<Variant> variants_of(const Network& network) {
  std::vector<Variant> all{
      {"GPU", "fp32", Precision::fp32}, {"GPU", "fp16", Precision::fp16}, {"GPU", "bf16", Precision::bf16}};
  // Where a run is the reading of weights, fewer bits are to pay.
  if (network.name.find("big_") != std::string::npos) {
    all.push_back({"GPU", "fp8", Precision::fp8});
    all.push_back({"GPU", "fp4", Precision::fp4});
  }
  all.push_back({"CPU", "fp32", Precision::fp32});
  return all;
}

// Where the time of a run goes, in a session with events inside its recording. The load is that of `untimed`, if any.
void add_gpu_figures(Json& out, const Graph& graph, const Options& options, Precision precision, Session* untimed) {
  Ready timed = ready(graph, options.device(), precision, {.tuned = !options.tiny, .gpu_times = true});
  GpuFigures figures = measure_gpu_figures(timed.session, 3, options.tiny ? 3 : 100);
  if (untimed) measure_gpu_load(*untimed, 1, figures);
  out["gpu"] = sparkpilot::to_json(figures);
}

// The time of each node on the GPU, from events.
void add_profile(Json& out, const Graph& graph, const Options& options, Precision precision) {
  Ready made = ready(graph, options.device(), precision, {.tuned = !options.tiny, .profile = true});
  const int runs = options.tiny ? 2 : 20;
  for (int i = 0; i < runs; ++i) made.session.run();
  put_nodes(out, made.session.profile());
}

Json times_json(const Statistics& ms) {
  return {
      {"runs", ms.count}, {"mean_ms", ms.mean}, {"p50_ms", ms.p50}, {"p90_ms", ms.p90},
      {"p99_ms", ms.p99}, {"min_ms", ms.min},   {"max_ms", ms.max}, {"runs_per_s", ms.mean > 0 ? 1e3 / ms.mean : 0}};
}

InterleavedOptions turns(const Options& options) {
  return {.rounds = options.rounds, .round_ms = options.tiny ? 1.0 : 50.0, .min_runs = options.tiny ? 1 : 3};
}

Json time_network(const Network& network, const Options& options) {
  const Graph graph = network.load();
  const std::vector<Variant> variants = variants_of(network);
  std::vector<Ready> sessions;
  std::vector<double> first_ms;
  for (const Variant& variant : variants) {
    const bool on_gpu = std::string_view(variant.device) == "GPU";
    sessions.push_back(ready(graph, on_gpu ? options.device() : "cpu", variant.as, {.tuned = !options.tiny}));
    const int64_t start = now_ns();
    sessions.back().session.run();
    first_ms.push_back(static_cast<double>(now_ns() - start) * 1e-6);
  }
  std::vector<std::function<void()>> runs;
  for (Ready& made : sessions) runs.emplace_back([&session = made.session] { session.run(); });
  const std::vector<InterleavedTimes> times = time_interleaved(runs, turns(options));
  Json out{{"network", network.name}, {"variants", Json::array()}};
  for (size_t i = 0; i < sessions.size(); ++i) {
    Json one{{"device", variants[i].device},
             {"precision", variants[i].precision},
             {"threads", sessions[i].session.threads()}};
    one.update(times_json(summarize(times[i].ms)));
    one["first_ms"] = first_ms[i];
    one["load_ms"] = sessions[i].load_ms;
    const Ratio ratio = ratio_of(times[i].rounds, times.back().rounds);
    one["time_to_cpu"] = {{"median", ratio.median}, {"low", ratio.low}, {"high", ratio.high}};
    out["variants"].push_back(std::move(one));
  }
  for (size_t i = 0; i + 1 < variants.size(); ++i) {
    const bool automatic = variants[i].as == Precision::fp16;  // what `auto` takes; a load takes seconds to measure
    add_gpu_figures(out["variants"][i], graph, options, variants[i].as, automatic ? &sessions[i].session : nullptr);
    add_profile(out["variants"][i], graph, options, variants[i].as);
  }
  return out;
}

// Beside this program in its package; in the source tree beside the folder it was built in.
std::vector<fs::path> adapter_folders() {
  std::error_code none;
  const fs::path folder = fs::read_symlink("/proc/self/exe", none).parent_path();
  return {folder / "peers", folder.parent_path() / "peers"};
}

// Engines compute in the file's types, so we do.
Precision of_file(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant(ValueId{i});
    if (constant && constant->dtype() == DType::f16) return Precision::fp16;
  }
  return Precision::fp32;
}

Json beside_peers(const Network& network, const Options& options, std::vector<std::string>& failures) {
  const ScratchFolder scratch;
  fs::path file = network.file;
  const Graph graph = network.load();
  const Precision precision = of_file(graph);
  if (file.empty()) save_onnx(graph, file = scratch.path() / (network.name + ".onnx"));
  Ready ours = ready(graph, options.device(), precision, {.tuned = !options.tiny});
  std::vector<PeerName> names;
  for (const std::string& engine : options.engines) names.push_back(parse_peer_name(engine));
  PeerBenchOptions asked{.peers = {.folders = adapter_folders(), .python = options.python}, .precision = "model"};
  asked.peers.start_s = 60;
  asked.peers.load_s = asked.peers.run_s = 180;
  asked.turns = turns(options);
  const PeersBench found = bench_peers(ours.session, file, names, asked);
  if (found.ours.count == 0) failures.emplace_back("no run was timed");
  Json out{{"network", network.name},
           {"precision", precision == Precision::fp16 ? "fp16" : "fp32"},
           {"ours", times_json(found.ours)}};
  out["engines"] = Json::array();
  for (const PeerBench& peer : found.peers) {
    Json one{{"peer", peer.peer.str()}, {"engine", peer.engine}};
    if (peer.not_run.empty()) {
      one["device"] = peer.device;
      one["precision"] = peer.precision;
      one.update(times_json(peer.ms));
      one["load_ms"] = peer.load_ms;
      one["time_to_ours"] = {{"median", peer.ratio.median}, {"low", peer.ratio.low}, {"high", peer.ratio.high}};
    } else {
      one["not_run"] = peer.not_run;
    }
    out["engines"].push_back(std::move(one));
  }
  return out;
}

}  // namespace

Outcome bench_networks(const Options& options, const Json& go_on) {
  const std::vector<Network> all = networks(options, true);
  const auto held = GpuDevice::open(options.ordinal);
  return each_of(options, go_on, "networks", names_of(all),
                 [&](size_t i, std::vector<std::string>&) { return time_network(all[i], options); });
}

Outcome bench_beside_peers(const Options& options, const Json& go_on) {
  const std::vector<Network> all = networks(options, true);
  const auto held = GpuDevice::open(options.ordinal);
  return each_of(options, go_on, "networks", names_of(all),
                 [&](size_t i, std::vector<std::string>& failures) { return beside_peers(all[i], options, failures); });
}

}  // namespace sparkpilot::gpu_check
