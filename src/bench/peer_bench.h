// The speed of peers compared with a session of ours, on the same inputs, in turns.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "bench/interleaved.h"
#include "bench/peer.h"
#include "runtime/session.h"

namespace sparkpilot {

struct PeerBench {
  PeerName peer;
  std::string engine;     // with its version; empty if it could not be asked
  std::string device;     // "CPU"
  std::string precision;  // of the computation; "model": in the types of the file
  std::string not_run;    // why there are no times; empty if there are
  int threads = 0;        // 0: not known
  double load_ms = 0;
  Statistics ms;  // of one run
  Ratio ratio;    // of its time to ours, round by round: above 1 we are faster
};

struct PeersBench {
  Statistics ours;  // ms of one run of the session
  std::vector<PeerBench> peers;
};

struct PeerBenchOptions {
  PeerOptions peers = {};
  std::string precision = "fp32";  // that peers are asked for
  InterleavedOptions turns = {};
};

// `session`: of `file`, compiled and with its inputs set, which the peers get as well; they are asked for its number of
// threads. A peer that fails has `not_run`, and costs the others nothing. Fails (user) if a name has no adapter.
PeersBench bench_peers(Session& session, const std::filesystem::path& file, std::span<const PeerName> names,
                       const PeerBenchOptions& options = {});

}  // namespace sparkpilot
