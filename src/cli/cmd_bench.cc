// sparkpilot bench: how fast models run, and where the time goes.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/with_file.h"
#include "bench/facts.h"
#include "bench/inputs.h"
#include "bench/model_bench.h"
#include "bench/report.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/terminal.h"
#include "hw/cpu.h"
#include "onnx/import.h"

namespace sparkpilot::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  RunFlags run;
  int64_t runs = 100, warmup = 10, batch = 1;
  int64_t top = 0;
  bool profile = false;
};

// The nodes that ran: the slowest `top` of them, or all in their order if `top` is 0.
std::vector<NodeProfile> nodes_to_show(const Profile& profile, int64_t top) {
  std::vector<NodeProfile> nodes;
  for (const NodeProfile& node : profile.nodes) {
    if (node.calls > 0 && node.mean_ns() > 0) nodes.push_back(node);
  }
  if (top == 0) return nodes;
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeProfile& a, const NodeProfile& b) { return a.mean_ns() > b.mean_ns(); });
  if (std::ssize(nodes) > top) nodes.resize(static_cast<size_t>(top));
  return nodes;
}

// "86 % avx512": the share and what it is a share of.
std::string of_limit(double share, const std::string& limit) {
  return fmt::format("{:.0f} %{}{}", share * 100, limit.empty() ? "" : " ", limit);
}

Table limits_table(const Peak& peak) {
  Table table({fmt::format("limit, {} thread{}", peak.threads, peak.threads == 1 ? "" : "s"), "holds", "GFLOP/s",
               "GB/s read", "GB/s"});
  for (const UnitPeak& unit : peak.units) {
    table.add({fmt::format("{} in {}", unit.name, arithmetic_name(unit.arithmetic)), "-",
               fmt::format("{:.0f}", unit.flops_per_second * 1e-9), "-", "-"});
  }
  for (const LevelPeak& level : peak.levels) {
    if (level.reads_per_second == 0) continue;
    table.add({level.name, std::isfinite(level.bytes) ? human_bytes(static_cast<int64_t>(level.bytes)) : "-", "-",
               fmt::format("{:.1f}", level.reads_per_second * 1e-9),
               fmt::format("{:.1f}", level.bytes_per_second * 1e-9)});
  }
  return table;
}

void print_profile(const ModelBench& bench, int64_t top) {
  const auto columns = static_cast<size_t>(stdout_columns());
  print(fmt::format("\n{}\n", painted(columns > 0 ? fitted(bench.file, columns) : bench.file, Paint::bold)));
  Table ops({"op", "kernel", "nodes", "ms", "share"});
  for (const OpTime& time : times_by_op(bench.profile)) {
    ops.add({time.op, time.kernel, std::to_string(time.nodes), human_ms(time.mean_ms),
             fmt::format("{:.1f} %", time.share * 100)});
  }
  Table nodes({"node", "op", "kernel", "shape", "us", "GFLOP/s", "GB/s", "roofline"});
  bool any_measured = false;
  for (const NodeProfile& node : nodes_to_show(bench.profile, top)) {
    const bool measured = node.chosen_by == ChosenBy::measured;
    any_measured |= measured;
    nodes.add({node.name, node.op, node.kernel + (measured ? "*" : ""), node.shape,
               fmt::format("{:.1f}", node.mean_ns() * 1e-3), fmt::format("{:.1f}", node.flops / node.mean_ns()),
               fmt::format("{:.1f}", node.bytes / node.mean_ns()), of_limit(node.roofline_share, node.roofline_limit)});
  }
  print(nodes.str() + (any_measured ? "* chosen by times on this machine\n" : "") + "\n" + ops.str());
  print("\n" + limits_table(bench.peak).str());
  const std::vector<DeclinedNodes> declined = declined_kernels(bench.profile);
  if (declined.empty()) return;
  Table reasons({"op", "kernel", "instead of", "because", "nodes", "ms"});
  for (const DeclinedNodes& d : declined) {
    reasons.add(
        {d.op, d.kernel, d.declined, d.reason.empty() ? "-" : d.reason, std::to_string(d.nodes), human_ms(d.mean_ms)});
  }
  print("\n" + reasons.str());
}

// Checks all files first: one that cannot be measured must not discard the measurements of those before it.
void check_files(const Flags& flags, const BenchOptions& options) {
  for (const std::string& file : flags.files) {
    with_file(file, [&] {
      Graph graph = load_onnx(file);
      session_batch(graph, options.session, options.batch);
      if (!options.session.outputs.empty()) select_outputs(graph, options.session.outputs);
    });
  }
}

int bench(const Program& program, const Flags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  expect_at_least("--runs", flags.runs, 1);
  expect_at_least("--warmup", flags.warmup, 0);
  expect_at_least("--batch", flags.batch, 1);
  expect_at_least("--top", flags.top, 0);
  BenchOptions options;
  options.session = session_options(program, flags.run);
  options.threads = chosen_threads(program);
  options.runs = flags.runs;
  options.warmup = flags.warmup;
  options.batch = flags.batch;
  options.seed = flags.run.seed;
  options.profile = flags.profile;

  check_files(flags, options);
  std::vector<ModelBench> results;
  {
    Progress progress(!program.quiet, "");
    for (const std::string& file : flags.files) {
      progress.what(file);
      options.progress = [&](double done) {
        progress.at((static_cast<double>(results.size()) + done) / static_cast<double>(flags.files.size()));
      };
      with_file(file, [&] { results.push_back(bench_model(file, options)); });
    }
  }
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  Table table({"model", "threads", "mean ms", "p50", "p90", "p99", "min", "first", "frames/s", "load ms", "memory",
               "weights", "roofline"});
  for (const ModelBench& r : results) {
    if (!program.quiet) {
      for (const std::string& text : r.notes) note(fmt::format("{}: {}", r.file, text));
    }
    models.push_back(to_json(r, options));
    table.add({r.file, std::to_string(r.threads), human_ms(r.ms.mean), human_ms(r.ms.p50), human_ms(r.ms.p90),
               human_ms(r.ms.p99), human_ms(r.ms.min), human_ms(r.first_ms),
               fmt::format("{:.1f}", r.frames_per_second()), fmt::format("{:.0f}", r.load_ms),
               r.peak_memory_bytes ? human_bytes(*r.peak_memory_bytes) : "-", human_bytes(r.weight_bytes),
               of_limit(r.roofline_share, r.roofline_limit)});
  }
  if (program.json) {
    print_json({{"format", kBenchFormat},
                {"format_version", kBenchFormatVersion},
                {"machine", machine_facts(machine(), cpu_features())},
                {"versions", version_facts()},
                {"models", models}});
    return kDone;
  }
  print(table.str());
  for (const ModelBench& r : results) {
    if (flags.profile) print_profile(r, flags.top);
  }
  return kDone;
}

}  // namespace

void add_bench(Program& program, Command app) {
  const auto flags = std::make_shared<Flags>();
  const Command command = add_command(program, app, "bench", "measure models on seeded random inputs",
                                      "  sparkpilot bench model.onnx\n"
                                      "  sparkpilot bench vision.onnx policy.onnx --threads 1 --runs 500 --json\n"
                                      "  sparkpilot bench model.onnx --profile --top 10",
                                      [&program, flags] { return bench(program, *flags); });
  add_list(command, "files", flags->files, "FILE", "ONNX models").required();
  add_number(command, "--runs", flags->runs, "timed runs");
  add_number(command, "--warmup", flags->warmup, "untimed runs before them");
  add_number(command, "--batch", flags->batch, "entries per run, by open first dimensions or those fixed at 1");
  const Option profile = command.add_flag("--profile", flags->profile, "time each node, in separate runs");
  add_number(command, "--top", flags->top, "print the N slowest nodes only; 0: all, in their order").needs(profile);
  add_run_flags(program, command, flags->run);
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
