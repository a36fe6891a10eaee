#include "cli/bench_peers.h"

#include <nlohmann/json.hpp>

#include "base/with_file.h"
#include "bench/ready_session.h"
#include "bench/report.h"
#include "cli/terminal.h"
#include "passes/precision.h"

namespace sparkpilot::cli {

using Json = nlohmann::ordered_json;

std::vector<PeersBench> bench_with_peers(const Program& program, const PeerFlags& flags,
                                         const std::vector<Measured>& models) {
  const std::vector<PeerName> names = peers_of(program, flags);
  if (names.empty()) return {};
  Progress progress(!program.quiet, "peers, in turns");
  std::vector<PeersBench> out;
  for (const Measured& model : models) {
    PeerBenchOptions options{.peers = peer_options(program, flags),
                             .precision = std::string(name(model.bench.precision))};
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

Json to_json(const PeersBench& peers) {
  Json out = Json::array();
  for (const PeerBench& p : peers.peers) {
    Json& row = out.emplace_back(Json{{"peer", p.peer.str()},
                                      {"engine", p.engine},
                                      {"device", p.device},
                                      {"precision", p.precision},
                                      {"threads", p.threads > 0 ? Json(p.threads) : Json()},
                                      {"not_run", p.not_run.empty() ? Json() : Json(p.not_run)}});
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

}  // namespace sparkpilot::cli
