// The part of `sparkpilot bench` that runs other engines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/peer_bench.h"
#include "bench/turns.h"
#include "cli/command.h"
#include "cli/peer_flags.h"

namespace sparkpilot::cli {

// Each peer in turns with each model that was measured, in their order; none without peers.
std::vector<PeersBench> bench_with_peers(const Program& program, const PeerFlags& flags,
                                         const std::vector<Measured>& models);

nlohmann::ordered_json to_json(const PeersBench& peers);

}  // namespace sparkpilot::cli
