// Other engines on the same models, for comparison: each is run by an adapter, a program that speaks the protocol of
// docs/peers.md. Whatever an adapter says or does is foreign: a crash, a hang, garbage or too much of anything is an
// Error that names the peer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sparkpilot/error.h"
#include "tensor/tensor.h"

namespace sparkpilot {

inline constexpr int kPeerProtocol = 1;

// A peer as the user names it: "onnxruntime", or "onnxruntime:cuda" with what it should run on. With a '/' the name is
// the path of an adapter, such as another build of this program.
struct PeerName {
  std::string name = {}, provider = {};
  std::string str() const { return provider.empty() ? name : name + ":" + provider; }
  bool is_path() const { return name.find('/') != std::string::npos; }
};
// The provider is what follows the first ':', of a path the first one behind the last '/'. Fails (user) if a part is
// empty or, unless it is a path, has other characters than letters, digits, '_', '-' and '.'.
PeerName parse_peer_name(const std::string& text);

struct PeerAdapter {
  std::string name;
  std::filesystem::path file;
};
// The executable files peer_NAME and the files peer_NAME.py in these folders, sorted by name; of several with the same
// name the one in the first folder counts. Folders that do not exist are passed over.
std::vector<PeerAdapter> find_adapters(const std::vector<std::filesystem::path>& folders);
// The one of this name, or at this path. Fails (user) listing the names that exist if there is no such name, and if the
// path is not that of a file which can be executed or ends in .py.
PeerAdapter find_adapter(const std::string& name, const std::vector<std::filesystem::path>& folders);

struct PeerOptions {
  std::vector<std::filesystem::path> folders = {};  // with adapters
  // Runs adapters that end in .py. Empty: .venv/bin/python next to the adapter's folder if there is one, else python3.
  std::string python = {};
  std::vector<std::string> unset = {};  // environment variables that adapters do not get
  // For adapters that are named by their path: what follows the word `peer` on their command line, and variables of the
  // environment.
  std::vector<std::string> words = {};
  std::map<std::string, std::string> set = {};
  std::vector<std::filesystem::path> remove_if_killed = {};  // folders, if this process is killed
  // Seconds that an adapter may take: to start, to load a model, for runs and everything else.
  double start_s = 120, load_s = 600, run_s = 120;
  int64_t most_output_bytes = int64_t{4} << 30;  // all outputs of a run
};

// What an adapter is asked to load.
struct PeerLoad {
  std::filesystem::path model;
  int threads = 1;
  std::string precision = "fp32";            // or "model" (as in the file), "fp16", "bf16"
  std::map<std::string, Shape> shapes = {};  // of inputs whose shape the file leaves open
  std::vector<std::string> outputs = {};     // values of the file to compute; empty: its outputs
};

// What it says of the loaded model.
struct PeerLoaded {
  std::string device;     // "CPU", "CUDA"
  std::string precision;  // of the computation
  int threads = 0;        // 0: not known
  double load_ms = 0;     // measured here, from the request to the answer
};

// What a peer's error says, without the peer's name in front.
std::string reason_of(const PeerName& peer, const Error& error);

// One adapter that runs. All calls fail (user) with "NAME: what happened"; after an adapter refused a request it can be
// asked again, after anything else (a crash, a deadline, a wrong answer) it is ended and every further call fails.
class Peer {
 public:
  // Starts the adapter and reads its greeting. Fails (user) if no adapter has the name, with those that there are.
  Peer(const PeerName& name, const PeerOptions& options);
  ~Peer();
  Peer(Peer&&) noexcept;
  Peer& operator=(Peer&&) noexcept;

  const PeerName& name() const;
  const std::string& engine() const;  // with its version: "ONNX Runtime 1.30.0"

  // Any model loaded before is dropped.
  PeerLoaded load(const PeerLoad& request);
  // Tensors by input name, for all further runs.
  void set_inputs(const std::map<std::string, Tensor>& inputs);
  // Milliseconds of each of `count` runs, measured by the adapter around the engine's run alone. `again`: a run that
  // had to wait for a processor may be done again instead, where the adapter knows how and runs have no states.
  std::vector<double> run(int64_t count, bool again = false);
  // Of the last run, in the adapter's order.
  std::vector<std::pair<std::string, Tensor>> outputs();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkpilot
