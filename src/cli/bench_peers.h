// The part of `sparkpilot bench` that runs other engines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/peer_bench.h"
#include "bench/turns.h"
#include "cli/bench_repeats.h"
#include "cli/command.h"
#include "cli/peer_flags.h"

namespace sparkpilot::cli {

// How much slower than each peer a model may be, and how many repeats find out.
struct PeerCheck {
  double max_regression = 0.05;
  size_t repeats = 20;
};

// Of the flags; `repeats` is -1 if none are given. Fails (user) on too few, and on flags that peers know nothing of.
PeerCheck peer_check(const RunFlags& flags, double max_regression, int64_t repeats);

// Each peer in turns with each model that was measured, in their order; none without peers.
std::vector<PeersBench> bench_with_peers(const Program& program, const PeerFlags& flags,
                                         const std::vector<Measured>& models);

// By model and peer, for those of `peers` that ran.
using PeerVerdicts = std::vector<std::vector<PeerRegression>>;
PeerVerdicts check_against_peers(const Program& program, const PeerFlags& flags, const std::vector<Measured>& models,
                                 const std::vector<PeersBench>& peers, const PeerCheck& check);

// `verdicts`: of these peers; may be empty.
nlohmann::ordered_json to_json(const PeersBench& peers, const std::vector<PeerRegression>& verdicts,
                               const PeerCheck& check);
std::string verdicts_table(const std::vector<BenchVariant>& variants, const std::vector<PeersBench>& peers,
                           const PeerVerdicts& verdicts, const PeerCheck& check);
// Prints on stderr what could not be told, and what is slower. Returns the exit code.
int verdicts_outcome(const std::vector<BenchVariant>& variants, const std::vector<PeersBench>& peers,
                     const PeerVerdicts& verdicts, const PeerCheck& check);

}  // namespace sparkpilot::cli
