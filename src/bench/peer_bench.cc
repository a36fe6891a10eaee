#include "bench/peer_bench.h"

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace sparkpilot {
namespace {

// A peer, as long as it has not failed.
struct Entry {
  std::unique_ptr<Peer> peer;
  PeerBench result;

  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      peer.reset();
      result.not_run = reason_of(result.peer, error);
    }
  }
};

Entry open(const PeerName& name, Session& session, const std::filesystem::path& file, const PeerBenchOptions& options) {
  PeerLoad request{.model = file, .threads = session.threads(), .precision = options.precision};
  std::map<std::string, Tensor> inputs;
  for (const TensorInfo& info : session.inputs()) {
    const View view = session.input(info.name);
    Tensor copy(view.dtype, view.shape);
    std::copy_n(static_cast<const std::byte*>(view.data), copy.bytes(), static_cast<std::byte*>(copy.raw()));
    const bool open_in_file = std::any_of(info.dims.begin(), info.dims.end(), [](const Dim& d) { return d.size < 0; });
    if (open_in_file) request.shapes[info.name] = view.shape;
    inputs.emplace(info.name, std::move(copy));
  }
  Entry entry{.peer = nullptr, .result = {.peer = name}};
  entry.attempt([&] {
    entry.peer = std::make_unique<Peer>(name, options.peers);
    entry.result.engine = entry.peer->engine();
    const PeerLoaded loaded = entry.peer->load(request);
    entry.result.device = loaded.device;
    entry.result.precision = loaded.precision;
    entry.result.threads = loaded.threads;
    entry.result.load_ms = loaded.load_ms;
    entry.peer->set_inputs(inputs);
  });
  return entry;
}

}  // namespace

PeersBench bench_peers(Session& session, const std::filesystem::path& file, std::span<const PeerName> names,
                       const PeerBenchOptions& options) {
  for (const PeerName& name : names) find_adapter(name.name, options.peers.folders);
  std::vector<Entry> entries;
  for (const PeerName& name : names) entries.push_back(open(name, session, file, options));
  std::vector<TimedRuns> runs{timed([&] { session.run(); })};
  for (Entry& entry : entries) {
    runs.emplace_back([&entry](int64_t count) {
      std::vector<double> ms;
      if (entry.peer) entry.attempt([&] { ms = entry.peer->run(count); });
      return ms;
    });
  }
  const std::vector<InterleavedTimes> times = time_interleaved(runs, options.turns);
  PeersBench out{.ours = summarize(times[0].ms), .peers = {}};
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].result.ms = summarize(times[i + 1].ms);
    if (!times[i + 1].rounds.empty()) entries[i].result.ratio = ratio_of(times[i + 1].rounds, times[0].rounds);
    out.peers.push_back(std::move(entries[i].result));
  }
  return out;
}

}  // namespace sparkpilot
