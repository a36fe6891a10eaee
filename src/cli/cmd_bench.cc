// sparkpilot bench: how fast models run, and where the time goes.
#include <algorithm>
#include <cmath>
#include <memory>

#include "adapters/load_model.h"
#include "base/with_file.h"
#include "bench/facts.h"
#include "bench/inputs.h"
#include "bench/model_bench.h"
#include "bench/report.h"
#include "bench/turns.h"
#include "cli/bench_baseline.h"
#include "cli/bench_gpu.h"
#include "cli/bench_peers.h"
#include "cli/bench_repeats.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/terminal.h"
#include "cli/variants.h"
#include "hw/cpu.h"
#include "passes/precision.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  std::vector<std::string> files, adapters;
  RunFlags run;
  int64_t runs = 100, warmup = 10, batch = 1, streams = 1;
  int64_t top = 0;
  bool profile = false;
  PeerFlags peers;
  std::string precisions;                // a list; empty: the setting
  std::string baseline;                  // a file; empty: none
  std::string max_regression;            // a share; empty: 5 %
  int64_t repeats = -1, as_repeat = -1;  // -1: the default; not such a process
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

// "86 % avx512": the share and what it is a share of; "-" where no limit is known.
std::string of_limit(double share, const std::string& limit) {
  return limit.empty() ? "-" : fmt::format("{:.0f} % {}", share * 100, limit);
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

void print_profile(const std::string& name, const ModelBench& bench, int64_t top) {
  const auto columns = static_cast<size_t>(stdout_columns());
  print(fmt::format("\n{}\n", painted(columns > 0 ? fitted(name, columns) : name, Paint::bold)));
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
  print("\n" + (bench.gpu ? gpu_limits_table(*bench.gpu) : limits_table(bench.peak).str()));
  const std::vector<DeclinedNodes> declined = declined_kernels(bench.profile);
  if (declined.empty()) return;
  Table reasons({"op", "kernel", "instead of", "because", "nodes", "ms"});
  for (const DeclinedNodes& d : declined) {
    reasons.add(
        {d.op, d.kernel, d.declined, d.reason.empty() ? "-" : d.reason, std::to_string(d.nodes), human_ms(d.mean_ms)});
  }
  print("\n" + reasons.str());
}

// Every file in every precision.
std::vector<BenchVariant> variants_of(const Program& program, const BenchFlags& flags) {
  BenchOptions options;
  options.session = session_options(program, flags.run);
  options.threads = chosen_threads(program);
  options.runs = flags.runs;
  options.warmup = flags.warmup;
  options.batch = flags.batch;
  options.streams = flags.streams;
  options.seed = flags.run.seed;
  options.profile = flags.profile;
  std::vector<Precision> precisions{options.session.passes.precision};
  if (!flags.precisions.empty()) {
    precisions.clear();
    for (const std::string& text : split_list(flags.precisions, "--precision"))
      precisions.push_back(precision_of(program, text, options.session.device));
  }
  expect_calibration_used(flags.run, !flags.run.calibration.empty(), precisions);
  std::vector<BenchVariant> variants;
  for (const std::string& base : flags.files) {
    const std::string file = adapted(base, flags.adapters);
    for (const Precision precision : precisions) {
      options.session.passes.precision = precision;
      take_calibration(flags.run, file, options.session);
      variants.push_back({precisions.size() > 1 ? fmt::format("{} {}", file, name(precision)) : file, file, options});
    }
  }
  return variants;
}

// Checks all of them first: one that cannot be measured must not discard the measurements of those before it.
void check_files(const std::vector<BenchVariant>& variants) {
  for (const BenchVariant& variant : variants) {
    with_file(variant.file, [&] {
      Graph graph = load_model(variant.file);
      session_batch(graph, variant.options.session, variant.options.batch);
      if (!variant.options.session.outputs.empty()) select_outputs(graph, variant.options.session.outputs);
    });
  }
}

std::vector<Measured> measure(const Program& program, const std::vector<BenchVariant>& variants) {
  std::vector<Measured> out;
  Progress progress(!program.quiet, "");
  for (const BenchVariant& variant : variants) {
    progress.what(variant.name);
    BenchOptions options = variant.options;
    options.progress = [&](double done) {
      progress.at((static_cast<double>(out.size()) + done) / static_cast<double>(variants.size()));
    };
    with_file(variant.file, [&] { out.push_back({variant.options, bench_model(variant.file, options)}); });
  }
  return out;
}

std::vector<Ratio> compared(const Program& program, const std::vector<Measured>& models) {
  if (models.size() < 2) return {};
  Progress progress(!program.quiet, "in turns");
  InterleavedOptions options;
  options.progress = [&](double done) { progress.at(done); };
  return ratios_in_turns(models, options);
}

// The rows of the peers, which were timed in turns with the model above them.
void add_peers(Table& table, const PeersBench& timed) {
  for (const PeerBench& p : timed.peers) {
    const bool run = p.not_run.empty();
    const auto ms = [&](double value) { return run ? human_ms(value) : std::string("-"); };
    table.add({fmt::format("  {}{}{}", p.peer.str(), p.engine.empty() ? "" : ", ", p.engine),
               p.threads > 0 ? std::to_string(p.threads) : "-", run ? human_ms(p.ms.mean) : "not run", ms(p.ms.p50),
               ms(p.ms.p90), ms(p.ms.p99), ms(p.ms.min), "-", run ? fmt::format("{:.1f}", 1e3 / p.ms.mean) : "-",
               run ? fmt::format("{:.0f}", p.load_ms) : "-", "-", "-", "-",
               run ? fmt::format("{:.3f}", p.ratio.median) : "-",
               run ? fmt::format("{:.3f} to {:.3f}", p.ratio.low, p.ratio.high) : "-"});
  }
}

void print_table(const std::vector<BenchVariant>& variants, const std::vector<Measured>& models,
                 const std::vector<Ratio>& ratios, const std::vector<PeersBench>& peers) {
  std::vector<std::string> headings{"model", "threads",  "mean ms", "p50",    "p90",     "p99",     "min",
                                    "first", "frames/s", "load ms", "memory", "weights", "roofline"};
  const bool compared = !ratios.empty() || !peers.empty();
  if (compared) headings.insert(headings.end(), {"time", "90 %"});
  Table table(headings);
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelBench& r = models[i].bench;
    std::vector<std::string> row{variants[i].name,
                                 std::to_string(r.threads),
                                 human_ms(r.ms.mean),
                                 human_ms(r.ms.p50),
                                 human_ms(r.ms.p90),
                                 human_ms(r.ms.p99),
                                 human_ms(r.ms.min),
                                 human_ms(r.first_ms),
                                 fmt::format("{:.1f}", r.frames_per_second()),
                                 fmt::format("{:.0f}", r.load_ms),
                                 r.peak_memory_bytes ? human_bytes(*r.peak_memory_bytes) : "-",
                                 human_bytes(r.weight_bytes),
                                 of_limit(r.roofline_share, r.roofline_limit)};
    if (compared) {
      row.push_back(i == 0 ? "1" : fmt::format("{:.3f}", ratios[i].median));
      row.push_back(i == 0 ? "-" : fmt::format("{:.3f} to {:.3f}", ratios[i].low, ratios[i].high));
    }
    table.add(row);
    if (!peers.empty()) add_peers(table, peers[i]);
  }
  print(table.str());
  for (const PeersBench& timed : peers) {
    for (const PeerBench& p : timed.peers) {
      if (!p.not_run.empty()) print(fmt::format("{}: not run: {}\n", p.peer.str(), p.not_run));
    }
  }
  if (!peers.empty()) print("time of a peer: divided by that of the model above it, in turns\n");
}

// How many repeats to measure of each model, apart from those that hold it against its peers.
size_t repeats_of(const Program& program, const BenchFlags& flags) {
  constexpr int64_t kUsual = 20, kLeast = 5;
  const bool of_peers = !flags.peers.names.empty() && !flags.max_regression.empty();
  const bool wanted = (program.json && !of_peers) || !flags.baseline.empty();
  if (flags.repeats < 0) return wanted ? kUsual : 0;
  if (flags.repeats > 0 && flags.repeats < kLeast)
    fail("--repeats: expected 0, or at least {}, got {}", kLeast, flags.repeats);
  if (!wanted && of_peers) return 0;
  if (!wanted) fail("--repeats has no effect without --json or --baseline");
  if (flags.repeats == 0 && !flags.baseline.empty())
    fail("--baseline needs repeats: expected at least {}, got 0", kLeast);
  return static_cast<size_t>(flags.repeats);
}

// The repeats of every model, compared with the baseline if there is one.
std::vector<BaselinePair> repeated(const Program& program, const std::vector<BenchVariant>& variants,
                                   const std::vector<Measured>& models, std::vector<BaselinePair> pairs, size_t repeats,
                                   double max_regression) {
  Progress progress(!program.quiet, "");
  size_t done = 0;
  const auto step = [&](size_t model) {
    ++done;
    progress.what(fmt::format("{}: repeat {}", variants[model].name, done));
    progress.at(std::min(1.0, static_cast<double>(done) / static_cast<double>(repeats * models.size())));
  };
  if (!pairs.empty()) {
    hold_against(pairs, models, repeats, max_regression, step);
    return pairs;
  }
  pairs.resize(models.size());
  for (size_t i = 0; i < models.size(); ++i) {
    const size_t good = record_repeats(pairs[i].repeats, i, models[i], repeats, [&] { step(i); });
    if (good * 2 >= repeats || program.quiet) continue;
    note(fmt::format("{}: {} of {} repeats were undisturbed: as a baseline this is of little use", variants[i].name,
                     good, pairs[i].repeats.size()));
  }
  return pairs;
}

int bench(const Program& program, const BenchFlags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  expect_at_least("--runs", flags.runs, 1);
  constexpr int64_t kMostRuns = 10'000'000;
  if (flags.runs > kMostRuns) fail("--runs: expected at most {}, got {}", kMostRuns, flags.runs);
  expect_at_least("--warmup", flags.warmup, 0);
  expect_at_least("--batch", flags.batch, 1);
  if (flags.streams < 1 || flags.streams > kMostStreams)
    fail("--streams: expected 1 to {}, got {}", kMostStreams, flags.streams);
  expect_at_least("--top", flags.top, 0);
  std::vector<BenchVariant> variants = variants_of(program, flags);
  if (flags.as_repeat >= 0) return answer_repeat(variants, flags.as_repeat);
  const size_t repeats = repeats_of(program, flags);
  // On a busy machine more than twice as many are measured, of which a baseline may hold a thousand.
  constexpr size_t kMostRepeats = 400;
  if (repeats > kMostRepeats) fail("--repeats: expected at most {}, got {}", kMostRepeats, repeats);
  const double max_regression =
      parse_share(flags.max_regression.empty() ? "5%" : flags.max_regression, "--max-regression");
  const bool with_peers = !peers_of(program, flags.peers).empty();
  if (!with_peers) refuse_given(program, "--peer-timeout", "--peer, which is not given");
  if (!flags.max_regression.empty() && flags.baseline.empty() && !with_peers)
    fail("--max-regression has no effect without --baseline or --peer");
  const bool checked = with_peers && !flags.max_regression.empty();
  const PeerCheck check = checked ? peer_check(flags.run, max_regression, flags.repeats) : PeerCheck();
  if (with_peers) {
    if (flags.batch != 1) fail("--batch: peers run a file as it is; leave out --batch or --peer");
    if (!flags.run.outputs.empty()) fail("--output: peers compute all outputs of a file; leave out --output or --peer");
  }
  check_files(variants);
  std::optional<Baseline> baseline;
  if (!flags.baseline.empty()) baseline = read_baseline(flags.baseline);
  for (BenchVariant& variant : variants) {
    with_file(variant.file, [&] { settle_device(variant.file, variant.options); });
  }
  std::vector<BaselinePair> pairs;
  if (baseline) pairs = match_baseline(*baseline, variants);
  const std::vector<Measured> models = measure(program, variants);
  const std::vector<Ratio> ratios = compared(program, models);
  const std::vector<PeersBench> peers = bench_with_peers(program, flags.peers, models);
  const PeerVerdicts verdicts =
      checked ? check_against_peers(program, flags.peers, models, peers, check) : PeerVerdicts(peers.size());
  pairs = repeated(program, variants, models, std::move(pairs), repeats, max_regression);
  Json list = Json::array();
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelBench& r = models[i].bench;
    if (!program.quiet) {
      for (const std::string& text : r.notes) note(fmt::format("{}: {}", r.file, text));
    }
    Json& one = list.emplace_back(to_json(r, models[i].options));
    if (i > 0) one["time_ratio"] = to_json(ratios[i]);
    if (!peers.empty()) one["peers"] = to_json(peers[i], verdicts[i], check);
    if (repeats > 0) one["repeats"] = to_json(std::span<const Repeat>(pairs[i].repeats));
    if (baseline) one["baseline"] = to_json(pairs[i], max_regression);
  }
  const Json here = machine_facts(machine(), cpu_features()), versions = version_facts();
  if (program.json) {
    Json document{
        {"format", kBenchFormat}, {"format_version", kBenchFormatVersion}, {"machine", here}, {"versions", versions}};
    if (baseline)
      document["baseline"] = {{"file", flags.baseline}, {"differences", machine_notes(*baseline, here, versions)}};
    document["models"] = std::move(list);
    print_json(document);
  } else {
    print_table(variants, models, ratios, peers);
    if (checked) print("\n" + verdicts_table(variants, peers, verdicts, check));
    print(gpu_tables(variants, models));
    for (size_t i = 0; i < models.size(); ++i) {
      if (flags.profile) print_profile(variants[i].name, models[i].bench, flags.top);
    }
    if (baseline) print("\n" + baseline_table(*baseline, variants, pairs, max_regression));
  }
  const int outcome = checked ? verdicts_outcome(variants, peers, verdicts, check) : kDone;
  if (!baseline) return outcome;
  if (!program.quiet) {
    for (const std::string& line : machine_notes(*baseline, here, versions))
      note(fmt::format("{}: {}", baseline->file, line));
  }
  return std::max(outcome, baseline_outcome(variants, pairs, max_regression, program.quiet));
}

}  // namespace

void add_bench(Program& program, Command app) {
  const auto flags = std::make_shared<BenchFlags>();
  const Command command = add_command(program, app, "bench", "measure models on seeded random inputs",
                                      "  sparkpilot bench model.onnx\n"
                                      "  sparkpilot bench old.onnx new.onnx --threads 1 --runs 500 --json\n"
                                      "  sparkpilot bench model.onnx --precision fp32,bf16\n"
                                      "  sparkpilot bench model.onnx --json >before.json\n"
                                      "  sparkpilot bench model.onnx --baseline before.json --max-regression 5%\n"
                                      "  sparkpilot bench model.onnx --peer onnxruntime,tinygrad\n"
                                      "  sparkpilot bench model.onnx --peer ./old/sparkpilot --max-regression 5%\n"
                                      "  sparkpilot bench model.onnx --profile --top 10",
                                      [&program, flags] { return bench(program, *flags); });
  add_list(command, "files", flags->files, "FILE", "ONNX models, or FILE@ADAPTER with an adapter merged").required();
  add_adapter_flag(command, flags->adapters, "merge this adapter into each of them first (repeatable)");
  add_number(command, "--runs", flags->runs, "timed runs");
  add_number(command, "--warmup", flags->warmup, "untimed runs before them");
  add_number(command, "--batch", flags->batch, "entries per run, by open first dimensions or those fixed at 1");
  add_number(command, "--streams", flags->streams,
             "on a GPU: sessions that run at the same time, in a measurement of their own");
  const Option profile = command.add_flag("--profile", flags->profile, "time each node, in separate runs");
  add_number(command, "--top", flags->top, "print the N slowest nodes only; 0: all, in their order").needs(profile);
  command
      .add_option("--baseline", flags->baseline, "compare with FILE, which `bench --json` wrote; exit with 4 if slower")
      .type_name("FILE")
      .default_str("");
  command
      .add_option("--max-regression", flags->max_regression,
                  "how much slower than the baseline is allowed; with --peer, than each peer: both are loaded anew "
                  "--repeats times and timed in turns; exit with 4 if slower")
      .type_name("SHARE")
      .default_str("5%");
  command
      .add_option(
          "--repeats", [flags](const std::string& text) { flags->repeats = std::stoll(text); },
          "for --json and --baseline: processes that measure each model once more, 0: none; for --peer with "
          "--max-regression: how often both are loaded anew, at least 8")
      .check(no_number<uint32_t>)
      .type_name("N")
      .default_str("20");
  command
      .add_option(
          "--as-repeat", [flags](const std::string& text) { flags->as_repeat = std::stoll(text); },
          "one of those processes")
      .check(no_number<uint32_t>)
      .hidden();
  add_peer_flags(command, flags->peers);
  add_graph_flags(command, flags->run);
  add_precision_list(program, command, flags->precisions);
  add_calibration_flag(command, flags->run);
  for (const char* setting : {"threads", "tune", "verbose"}) add_setting(program, command, setting);
  add_device_flags(program, command);
  add_passes_flag(command, flags->run);
  add_number(command, "--seed", flags->run.seed, "seed of the random inputs");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
