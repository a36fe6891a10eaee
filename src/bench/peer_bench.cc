#include "bench/peer_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/paired.h"
#include "base/scratch_folder.h"

namespace sparkpilot {
namespace {

// A peer, as long as it has not failed.
struct Entry {
  std::unique_ptr<Peer> peer = nullptr;
  PeerBench result = {};

  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      peer.reset();
      result.not_run = reason_of(result.peer, error);
    }
  }
  TimedRuns timed_runs(bool again = false) {
    return [this, again](int64_t count) {
      std::vector<double> ms;
      if (peer) attempt([&] { ms = peer->run(count, again); });
      return ms;
    };
  }
};

Entry open(const PeerName& name, const PeerTask& task, const PeerBenchOptions& options) {
  Entry entry{.peer = nullptr, .result = {.peer = name}};
  entry.attempt([&] {
    entry.peer = std::make_unique<Peer>(name, options.peers);
    entry.result.engine = entry.peer->engine();
    const PeerLoaded loaded = entry.peer->load(task.request);
    entry.result.device = loaded.device;
    entry.result.precision = loaded.precision;
    entry.result.threads = loaded.threads;
    entry.result.load_ms = loaded.load_ms;
    entry.peer->set_inputs(task.inputs);
  });
  return entry;
}

// A machine's speed may change for tens of milliseconds at a time, so turns are as short as can be: on two processors
// of a virtual machine, repeats of a run of 5 ms differed by 2.0 % (standard deviation) with 8 rounds of three runs,
// and by 0.8 % with 32 of one. Fewer rounds of what takes longer: 0.4 s of each side. Runs both a few times.
InterleavedOptions short_turns(const std::vector<TimedRuns>& sides) {
  double ms = 1e-3;
  for (const TimedRuns& run : sides) {
    for (const double each : run(2)) ms = std::max(ms, each);
  }
  return {.rounds = std::clamp<int64_t>(static_cast<int64_t>(400 / ms), 8, 32),
          .round_ms = 5,
          .min_runs = 1,
          .progress = {}};
}

// The interquartile mean of the rounds' ratios, as logarithms: a ratio and its inverse count alike.
double ratio_of_rounds(std::span<const double> ours, std::span<const double> theirs) {
  constexpr double kLeast = 1e-6;  // ms, of a clock that saw nothing
  std::vector<double> logarithms;
  for (size_t i = 0; i < ours.size(); ++i)
    logarithms.push_back(std::log(std::max(ours[i], kLeast) / std::max(theirs[i], kLeast)));
  return std::exp(interquartile_mean(logarithms));
}

}  // namespace

PeerTask peer_task(Session& session, const std::filesystem::path& file, const std::string& precision) {
  PeerTask task{.request = {.model = file, .threads = session.threads(), .precision = precision}, .inputs = {}};
  for (const TensorInfo& info : session.inputs()) {
    const View view = session.input(info.name);
    Tensor copy(view.dtype, view.shape);
    std::copy_n(static_cast<const std::byte*>(view.data), copy.bytes(), static_cast<std::byte*>(copy.raw()));
    const bool open_in_file = std::any_of(info.dims.begin(), info.dims.end(), [](const Dim& d) { return d.size < 0; });
    if (open_in_file) task.request.shapes[info.name] = copy.shape();
    task.inputs.emplace(info.name, std::move(copy));
  }
  return task;
}

PeersBench bench_peers(Session& session, const std::filesystem::path& file, std::span<const PeerName> names,
                       const PeerBenchOptions& options) {
  for (const PeerName& name : names) find_adapter(name.name, options.peers.folders);
  const PeerTask task = peer_task(session, file, options.precision);
  std::vector<Entry> entries;
  for (const PeerName& name : names) entries.push_back(open(name, task, options));
  std::vector<TimedRuns> runs{timed([&] { session.run(); })};
  for (Entry& entry : entries) runs.push_back(entry.timed_runs());
  const std::vector<InterleavedTimes> times = time_interleaved(runs, options.turns);
  PeersBench out{.ours = summarize(times[0].ms), .peers = {}};
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].result.ms = summarize(times[i + 1].ms);
    if (!times[i + 1].rounds.empty()) entries[i].result.ratio = ratio_of(times[i + 1].rounds, times[0].rounds);
    out.peers.push_back(std::move(entries[i].result));
  }
  return out;
}

PeerRegression hold_against_peer(const PeerName& ours, const PeerName& theirs, const PeerTask& task,
                                 const PeerBenchOptions& options, size_t repeats, double max_regression,
                                 const std::function<void()>& done) {
  if (repeats < kLeastTurns) fail("repeats: expected at least {}, got {}", kLeastTurns, repeats);
  // Each keeps what it measures of kernels for its own next repeat: versions do not read each other's.
  const ScratchFolder cache_now, cache_then;
  PeerBenchOptions options_now = options, options_then = options;
  options_now.peers.set["XDG_CACHE_HOME"] = cache_now.path();
  options_then.peers.set["XDG_CACHE_HOME"] = cache_then.path();
  options_now.peers.remove_if_killed = options_then.peers.remove_if_killed = {cache_now.path(), cache_then.path()};
  const bool again = theirs.is_path();  // both sides or none
  std::vector<double> ratios;
  PeerRegression out;
  const auto repeat = [&] {
    // Whichever is loaded first finds the memory as it is; neither is meant to have that always.
    const bool ours_first = ratios.size() % 2 == 0;
    Entry we, they;
    if (ours_first) we = open(ours, task, options_now);
    they = open(theirs, task, options_then);
    if (!ours_first) we = open(ours, task, options_now);
    const std::vector<TimedRuns> sides{we.timed_runs(again), they.timed_runs(again)};
    const std::vector<InterleavedTimes> times = time_interleaved(sides, short_turns(sides));
    if (!we.result.not_run.empty()) fail("this program as a peer: {}", we.result.not_run);
    out.not_run = they.result.not_run;
    if (!out.not_run.empty()) return;
    ratios.push_back(ratio_of_rounds(times[0].rounds, times[1].rounds));
    done();
  };
  for (size_t look = 0; look < kMostLooks && out.verdict == Verdict::cannot_tell; ++look) {
    for (size_t more = look == 0 ? repeats : (repeats + 1) / 2; more > 0 && out.not_run.empty(); --more) repeat();
    if (!out.not_run.empty()) return out;
    out.time = ratio_of(ratios, std::vector<double>(ratios.size(), 1), kLookConfidence);
    if (out.time.low > 1 + max_regression) out.verdict = Verdict::regression;
    else if (out.time.high <= 1 + max_regression) out.verdict = Verdict::passed;
  }
  return out;
}

}  // namespace sparkpilot
