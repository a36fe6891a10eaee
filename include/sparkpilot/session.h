// A model that is ready to run: compiled once, buffers bound once.
//
//   Session session(load_onnx("driving_vision.onnx"), {.threads = 2});
//   std::span<uint8_t> img = session.input<uint8_t>("img");   // the session's own memory: written in place
//   session.run();
//   std::span<const float> out = session.output<float>("outputs");
//
// A session may be used by one thread at a time; several threads may each have their own. `run` allocates nothing if no
// shape depends on data (except that oneDNN allocates a little inside its calls).
//
// Within a run the work is shared among OpenMP's threads (GNU's libgomp), as many as SessionOptions::threads says.
// After a run they spin for some milliseconds before they sleep, which takes processor time from other programs: next
// to two other busy processes, beginning and ending a piece of work was measured at 50 ms, and at 0.05 ms with threads
// that sleep early. libgomp reads the spin time from the environment before main(), so a library cannot set it. The
// program `sparkpilot` sets GOMP_SPINCOUNT to about 0.15 ms and restarts itself, unless that variable or
// OMP_WAIT_POLICY is set; the library does not change the environment. A program that shares its processors with others
// gets the same effect if it is started with GOMP_SPINCOUNT=4000 (0.01 to 0.2 ms, depending on the processor). A
// program alone on its processors does not need it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparkpilot/graph.h"
#include "sparkpilot/profile.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot {

struct GpuStates;

// States by name: memory that runs pass to later runs.
struct StateStore : std::map<std::string, Tensor, std::less<>> {
  // On a GPU with its own memory: states stay there, and show() brings one here. If not, the caller may read and write
  // them between any two runs, and each run copies those that it uses. Set before a session is given the store.
  bool stay_on_gpu = false;
  std::shared_ptr<GpuStates> on_gpu = nullptr;  // of sessions, with stay_on_gpu

  // A state as the last run left it, wherever that was. What is written into it before the next run is used by that.
  // Fails (user) if there is no such state.
  const Tensor& show(std::string_view name);
  // Makes all of it zeros, where it is.
  void clear(std::string_view name);
};

// What chooses between the kernels that an op has for a node, and on a GPU between the ways to launch them: tiles,
// parts of the depth, warps.
enum class Tune : uint8_t {
  off,        // the op's rules of shape: the same kernels on every machine with the same instruction sets or GPU
  automatic,  // what the tuning file knows; the rest is timed where the rules were not measured on this processor, or
              // on a GPU, and the file can be written
  full,       // every node is timed; with a tuning file the others know it afterwards
};

// Every member has a default, here and in the structs of graph.h, so that -Wextra does not warn if only some are named:
// {.threads = 2}.
struct SessionOptions {
  // cpu, auto, cuda or cuda:N: the N-th GPU that CUDA shows, which fails (device) if there is no such GPU; ops without
  // a kernel for it run on the CPU (nodes_on_cpu). auto: the fastest GPU if it runs the whole model and a self-check on
  // it has passed, else the CPU; also if it fails before the first result. `say` gets a line where there is a GPU and
  // auto takes the CPU. It ran on an H100, not yet on a GB10: docs/cuda.md.
  std::string device = "cpu";
  // Bytes of the GPU's memory that are left to others; empty: 2 GiB where it is also the processor's, else 0.
  std::optional<int64_t> memory_reserve = {};
  // 0: the fastest number, at most the processors that this process may use; found by trial when it is compiled.
  int threads = 0;
  // A JSON file that keeps the number and the kernels found for later processes; empty: nothing is kept. A file that
  // cannot be read or written, or was written on another processor or by another version, is ignored; so is what was
  // found on another GPU, with another driver or other GPU code.
  std::string tuning_file = {};
  // Only where `kernels` is empty. Timing takes a second at most (full: ten), once a session; another kernel is taken
  // where it is more than a twentieth faster than the one of the rules. Results then differ by rounding.
  Tune tune = Tune::automatic;
  // The choices() of an earlier session: these come first, by `node` and `kernel`. If one does not accept, the rules
  // decide, and choices() says so. With `tune` off nothing else differs from the rules.
  std::vector<KernelDecision> choices = {};
  // Called with one line when loading takes longer than expected because kernels are timed or compiled from PTX, and
  // about the choice of `device`. May be null.
  std::function<void(const std::string& line)> say = {};
  std::map<std::string, int64_t> dims = {};  // sizes of named dimensions ("batch")
  // Shapes of inputs by their names, for open dimensions that have none. Each must fit the model's declaration; a named
  // dimension gets the given size in every input.
  std::map<std::string, Shape> shapes = {};
  // Above 1: a model whose inputs have a fixed first dimension of 1 runs that many entries at once. The first dimension
  // of those inputs and of all outputs is multiplied; other inputs are shared by all entries. Each entry's result
  // equals that of a separate run, up to rounding. Fails (user) if the model keeps states, is random, or has shapes
  // that depend on data. Open dimensions are given by `dims` and `shapes` instead.
  int64_t batch = 1;
  // Only these are computed; empty: all. They may be sliced: "logits[:, -1, :]". If several parts of one output are
  // given, each is an output named by its text; a single one keeps the output's name.
  std::vector<std::string> outputs = {};
  // fp32: no faster precision is as exact on the CPU. The program's default is Precision::automatic.
  PassOptions passes = {.precision = Precision::fp32};
  // Which of an op's kernels are used, separated by commas: "reference" or "sparkpilot::Gemm/dot" wherever it accepts,
  // "no-onednn" or "no-sparkpilot::Conv/simd" never. If not empty, the number of threads is not found by trial.
  std::string kernels = {};
  // Sessions with the same store share their states by name, so that one that updates parameters and one that uses them
  // see the same memory; they must run one at a time. Fails (user) if a state has another dtype or shape there. Null:
  // the session has its own store. States that lie in one Buffer do so on a GPU as well.
  std::shared_ptr<StateStore> states = nullptr;
  // Names of intermediates that a run keeps for visit_values; "all": every one.
  std::set<std::string, std::less<>> keep = {};
  bool profile = false;
  bool trace = false;
  bool gpu_times = false;  // for Session::gpu_times(); takes some time of every run
};

// A value of the last run, as visit_values shows it: valid during the call, what `view` points to until the next run.
struct RunValue {
  // In the file, where the value of that name holds the same up to rounding. Empty: only the compiled graph has it.
  std::string_view name;
  std::string_view node;  // the node that computes it, by name or as "Conv#12"; empty for inputs and states
  ConstView view;
  bool channels_last = false;  // axis 1 of the file's value is the last axis of the view
};

// An input or output of a model.
struct TensorInfo {
  std::string name = {};
  DType dtype = DType::none;
  std::vector<Dim> dims = {};       // as declared; size -1 if open
  std::optional<Shape> shape = {};  // once it is bound
};

class Session {
 public:
  // Compiles at once when every input's shape is fixed by the model, `dims` or `shapes`, else at the first run. Fails
  // (user) naming the node, the input or the option that is wrong.
  explicit Session(Graph graph, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;

  // The input's memory. Its shape must be bound: by the model, by `dims` or `shapes`, or by set_shape.
  View input(std::string_view name);
  template <typename T>
  std::span<T> input(std::string_view name);
  // Gives an input with open dimensions its shape (and new memory if it changed); dimensions that `dims` or `shapes`
  // fixed are not open.
  void set_shape(std::string_view name, const Shape& shape);
  // Copies a tensor in and sets the shape; fails (user) if dtype or fixed dimensions differ.
  void set_input(std::string_view name, const ConstView& value);

  // Compiles now instead of at the first run: every input's shape must be bound. Does nothing if already compiled. If
  // no shape depends on data, there are no loops, and a run takes a fraction of a second, it also runs a few times on
  // the inputs' present contents, without changing states or profile: to find the number of threads, and so that the
  // first run finds its memory ready.
  void compile();
  // Computes the outputs from the inputs' present contents.
  void run();

  // Valid until the next run; fails (user) before the first.
  ConstView output(std::string_view name) const;
  template <typename T>
  std::span<const T> output(std::string_view name) const;

  // States: memory that one run passes to the next, there once the shapes of all inputs are known. After a failed run,
  // states that are updated in place may have changed.
  std::vector<std::string> states() const;
  // On a GPU with its own memory states stay there; one that was asked for here, or whose store is the caller's
  // (without StateStore::stay_on_gpu), is copied to and from this memory at every run from then on.
  View state(std::string_view name);
  // Restores the initial contents. Fails (user), and changes nothing, if a state cannot be reset (State::resettable).
  void reset_states();

  // Node times since the last reset (options.profile).
  Profile profile() const;
  // The values of the last run that SessionOptions::keep names, in the order in which they were computed; with "all"
  // also inputs, states and values without a name.
  void visit_values(const std::function<void(const RunValue& value)>& visit) const;
  // The graph as it was compiled last; null before.
  const Graph* compiled_graph() const;
  // Of the plan in use: the kernel of each kind of node whose op has several, in the order in which they first run. A
  // session that is given them (SessionOptions::choices), with as many threads, runs the same kernels. Empty before it
  // is compiled.
  std::vector<KernelDecision> choices() const;
  // On a GPU: the nodes of the plan in use that run on the CPU, as "op (why)"; empty if all run on the GPU.
  std::vector<std::string> nodes_on_cpu() const;
  // Where it runs: "cpu" or "cuda:N". May change from a GPU to the CPU until the first result (SessionOptions::device).
  const std::string& device() const;
  // What it computes in: on that device, if Precision::automatic was asked for.
  Precision precision() const;
  std::optional<double> self_check_ms() const;  // of `auto`, while the session was made; empty: none, or known before
  // On a GPU: how often one run launches kernels, and copies between the processor's memory and the GPU's. Known after
  // the first run.
  struct Transfers {
    int64_t launches = 0, to_gpu = 0, to_host = 0, bytes_to_gpu = 0, bytes_to_host = 0;
  };
  Transfers transfers() const;
  // On a GPU, with SessionOptions::gpu_times: the last run's time until it was handed over, and what the GPU then did
  // by its own clock, in milliseconds. All 0 elsewhere, and while nodes are timed.
  struct GpuTimes {
    double enqueue_ms = 0, to_gpu_ms = 0, compute_ms = 0, to_host_ms = 0;
  };
  GpuTimes gpu_times() const;
  // What the session took until now to be ready, in milliseconds, without what follows; a GPU's driver to compile
  // kernels from PTX (also for other sessions that were loaded there meanwhile); timing kernels.
  struct LoadTimes {
    double load_ms = 0, ptx_ms = 0, tuning_ms = 0;
  };
  LoadTimes load_times() const;
  int threads() const;          // of the plan in use
  int64_t arena_bytes() const;  // activations, outputs and scratch of the plan in use
  // Of the constants that the nodes of the plan in use read, in the types that it stores them in.
  int64_t weight_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <typename T>
std::span<T> Session::input(std::string_view name) {
  const View view = input(name);
  if (view.dtype != dtype_of<T>()) detail::fail_dtype(name, view.dtype, dtype_of<T>());
  return {view.as<T>(), static_cast<size_t>(view.elements())};
}

template <typename T>
std::span<const T> Session::output(std::string_view name) const {
  const ConstView view = output(name);
  if (view.dtype != dtype_of<T>()) detail::fail_dtype(name, view.dtype, dtype_of<T>());
  return {view.as<T>(), static_cast<size_t>(view.elements())};
}

}  // namespace sparkpilot
