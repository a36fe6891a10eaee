#include "cli/bench_peers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/with_file.h"
#include "bench/ready_session.h"
#include "bench/report.h"
#include "cli/terminal.h"
#include "passes/precision.h"

namespace sparkpilot::cli {

using Json = nlohmann::ordered_json;

namespace {

PeerBenchOptions options_of(const Program& program, const PeerFlags& flags, const Measured& model) {
  return {.peers = peer_options(program, flags, model.options.session.device),
          .precision = std::string(name(model.bench.precision))};
}

Json check_facts(const PeerRegression& found, const PeerCheck& check) {
  const bool run = found.not_run.empty();
  Json out{{"verdict", run ? name(found.verdict) : "not_run"},
           {"max_regression", check.max_regression},
           {"repeats", found.time.rounds},
           {"time_ratio", nullptr},
           {"not_run", run ? Json() : Json(found.not_run)}};
  if (run) {
    out["time_ratio"] = {{"ratio", found.time.median},
                         {"low", found.time.low},
                         {"high", found.time.high},
                         {"confidence", kLookConfidence}};
  }
  return out;
}

}  // namespace

PeerCheck peer_check(const RunFlags& flags, double max_regression, int64_t repeats) {
  PeerCheck check{.max_regression = max_regression};
  if (repeats >= 0 && repeats < static_cast<int64_t>(kLeastTurns))
    fail("--repeats: expected at least {} with --peer and --max-regression, got {}", kLeastTurns, repeats);
  if (repeats >= 0) check.repeats = static_cast<size_t>(repeats);
  if (!flags.passes.empty() || !flags.calibration.empty() || flags.fp4_activations)
    fail("--passes, --calibration and --fp4-activations: with --peer and --max-regression a file is run as it is");
  return check;
}

std::vector<PeersBench> bench_with_peers(const Program& program, const PeerFlags& flags,
                                         const std::vector<Measured>& models) {
  const std::vector<PeerName> names = peers_of(program, flags);
  if (names.empty()) return {};
  Progress progress(!program.quiet, "peers, in turns");
  std::vector<PeersBench> out;
  for (const Measured& model : models) {
    PeerBenchOptions options = options_of(program, flags, model);
    options.turns.progress = [&](double done) {
      progress.at((static_cast<double>(out.size()) + done) / static_cast<double>(models.size()));
    };
    with_file(model.bench.file, [&] {
      Session session = ready_session(model.bench.file, model.options, model.bench.threads, model.bench.choices);
      out.push_back(bench_peers(session, model.bench.file, names, options));
    });
  }
  return out;
}

PeerVerdicts check_against_peers(const Program& program, const PeerFlags& flags, const std::vector<Measured>& models,
                                 const std::vector<PeersBench>& peers, const PeerCheck& check) {
  Progress progress(!program.quiet, "");
  PeerVerdicts out;
  for (size_t i = 0; i < models.size(); ++i) {
    const Measured& model = models[i];
    out.emplace_back();
    with_file(model.bench.file, [&] {
      const PeerBenchOptions options = options_of(program, flags, model);
      PeerTask task;
      {  // its session is gone before the peers need its memory
        Session session = ready_session(model.bench.file, model.options, model.bench.threads, model.bench.choices);
        task = peer_task(session, model.bench.file, options.precision);
      }
      for (const PeerBench& peer : peers[i].peers) {
        PeerRegression& result = out.back().emplace_back();
        result.not_run = peer.not_run;
        if (!peer.not_run.empty()) continue;
        size_t done = 0;
        progress.what(fmt::format("{} and {}, loaded anew", model.bench.file, peer.peer.str()));
        result =
            hold_against_peer({"/proc/self/exe"}, peer.peer, task, options, check.repeats, check.max_regression, [&] {
              const double share = static_cast<double>(++done) / static_cast<double>(check.repeats);
              progress.at(std::min(1.0, share));
            });
      }
    });
  }
  return out;
}

Json to_json(const PeersBench& peers, const std::vector<PeerRegression>& verdicts, const PeerCheck& check) {
  Json out = Json::array();
  for (size_t i = 0; i < peers.peers.size(); ++i) {
    const PeerBench& p = peers.peers[i];
    Json& row = out.emplace_back(Json{{"peer", p.peer.str()},
                                      {"engine", p.engine},
                                      {"device", p.device},
                                      {"precision", p.precision},
                                      {"threads", p.threads > 0 ? Json(p.threads) : Json()},
                                      {"not_run", p.not_run.empty() ? Json() : Json(p.not_run)}});
    if (!verdicts.empty()) row["check"] = check_facts(verdicts[i], check);
    if (!p.not_run.empty()) continue;
    row["load_ms"] = p.load_ms;
    row["mean_ms"] = p.ms.mean;
    row["p50_ms"] = p.ms.p50;
    row["p90_ms"] = p.ms.p90;
    row["p99_ms"] = p.ms.p99;
    row["min_ms"] = p.ms.min;
    row["time_ratio"] = sparkpilot::to_json(p.ratio);
  }
  return out;
}

std::string verdicts_table(const std::vector<BenchVariant>& variants, const std::vector<PeersBench>& peers,
                           const PeerVerdicts& verdicts, const PeerCheck& check) {
  Table table(
      {"against", "model", "time", fmt::format("{:.4g} %", kLookConfidence * 100), "allowed", "repeats", "verdict"});
  for (size_t i = 0; i < variants.size(); ++i) {
    for (size_t p = 0; p < verdicts[i].size(); ++p) {
      const Ratio& time = verdicts[i][p].time;
      const bool run = verdicts[i][p].not_run.empty();
      table.add({peers[i].peers[p].peer.str(), variants[i].name, run ? fmt::format("{:.3f}", time.median) : "-",
                 run ? fmt::format("{:.3f} to {:.3f}", time.low, time.high) : "-",
                 fmt::format("{:.3f}", 1 + check.max_regression), std::to_string(time.rounds),
                 run ? words_of(verdicts[i][p].verdict) : "not run"});
    }
  }
  return table.str();
}

int verdicts_outcome(const std::vector<BenchVariant>& variants, const std::vector<PeersBench>& peers,
                     const PeerVerdicts& verdicts, const PeerCheck& check) {
  bool failed = false;
  for (size_t i = 0; i < variants.size(); ++i) {
    for (size_t p = 0; p < verdicts[i].size(); ++p) {
      const PeerRegression& found = verdicts[i][p];
      const std::string what = fmt::format("{}: {}", variants[i].name, peers[i].peers[p].peer.str());
      const std::string interval = fmt::format("{:.3f} to {:.3f}", found.time.low, found.time.high);
      if (!found.not_run.empty()) {
        failed = true;
        note(fmt::format("{}: not run, so it is not known whether we are slower: {}", what, found.not_run));
      } else if (found.verdict == Verdict::cannot_tell) {
        note(fmt::format("{}: cannot tell: the allowed {:.3f} lies within {}", what, 1 + check.max_regression,
                         interval));
      } else if (found.verdict == Verdict::regression) {
        failed = true;
        note(fmt::format("{}: slower: our time is {:.3f} times the peer's ({}), allowed {:.3f}", what,
                         found.time.median, interval, 1 + check.max_regression));
      }
    }
  }
  return failed ? kCheckFailed : kDone;
}

}  // namespace sparkpilot::cli
