// The speed of peers compared with a session of ours, on the same inputs, in turns.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "bench/interleaved.h"
#include "bench/peer.h"
#include "bench/regression.h"
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

// What peers are to load and compute: a session's file, threads, shapes and inputs.
struct PeerTask {
  PeerLoad request;
  std::map<std::string, Tensor> inputs;
};
PeerTask peer_task(Session& session, const std::filesystem::path& file, const std::string& precision);

// Whether a program is slower than a peer, by repeats in which both are loaded afresh and then timed in turns.
struct PeerRegression {
  Verdict verdict = Verdict::cannot_tell;
  Ratio time;           // of the program's time to the peer's, repeat by repeat
  std::string not_run;  // why there are no times; empty if there are
};

// Fewer repeats have no interval of kLookConfidence.
inline constexpr size_t kLeastTurns = 8;

// `ours`: this program, as a peer too, so that both sides start and load alike: from one load to the next a model's
// time differs by some per cent. Measures `repeats` (at least kLeastTurns) and, while it cannot tell, up to three times
// half as many more. Each gives one number: the interquartile mean of up to 32 rounds' ratios, a round being one run of
// each side, or several in about 5 ms. It is a regression if the whole interval for the median of these numbers is
// above 1 + `max_regression`, and passed if the whole interval is not. `done` is called after each repeat. Fails (user)
// if `ours` does.
PeerRegression hold_against_peer(const PeerName& ours, const PeerName& theirs, const PeerTask& task,
                                 const PeerBenchOptions& options, size_t repeats, double max_regression,
                                 const std::function<void()>& done);

}  // namespace sparkpilot
