// A model made ready to run: compiled once, buffers bound once.
//
//   Session session(load_onnx("driving_vision.onnx"), {.threads = 2});
//   std::span<uint8_t> img = session.input<uint8_t>("img");   // the session's own memory: written in place
//   session.run();
//   std::span<const float> out = session.output<float>("outputs");
//
// A session is used by one thread at a time; several threads may each have one of their own. `run` allocates nothing of
// ours when no shape depends on data (oneDNN allocates a little inside its own calls).
//
// Within a run the work is shared among OpenMP's threads (GNU's libgomp), as many as SessionOptions::threads says. When
// a run has ended they spin for some milliseconds before they sleep, which takes processors from whoever else wants
// them: beside two other busy processes, beginning and ending a piece of work was measured at 50 ms, and at 0.05 ms
// with threads that sleep soon. libgomp reads how long they spin from the environment before main(), so a library
// cannot set it. The program `sparkpilot` sets GOMP_SPINCOUNT to about 0.15 ms and starts itself anew, where neither
// that variable nor OMP_WAIT_POLICY is set; the library leaves the environment as it is. A program that shares its
// processors with others gets the same by being started with GOMP_SPINCOUNT=4000 (0.01 to 0.2 ms, depending on the
// processor). Alone on its processors it loses nothing without.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparkpilot/graph.h"
#include "sparkpilot/profile.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot {

// States by name: memory that runs leave for later ones.
using StateStore = std::map<std::string, Tensor, std::less<>>;

// Every member has a value of its own, here and in the structs of graph.h, so that -Wextra has nothing to say where
// some are named: {.threads = 2}.
struct SessionOptions {
  std::string device = "auto";  // auto, cpu; another device is refused with the reason
  // 0: what is fastest, at most every processor that this process may use; found by trying when it is compiled.
  int threads = 0;
  // Keeps what was found from one process to the next (JSON); empty: nothing is kept. One that cannot be read or
  // written, or that another processor or version wrote, does no harm.
  std::string tuning_file = {};
  std::map<std::string, int64_t> dims = {};  // sizes of named dimensions ("batch")
  // Shapes of inputs by their names, for open dimensions that have none. Each must fit what the model declares; a named
  // dimension that one gives a size has that size in every input.
  std::map<std::string, Shape> shapes = {};
  // Above 1: a model whose inputs have a fixed first dimension of 1 runs that many entries at once. Those inputs and all
  // outputs have as many times the first dimension; other inputs are the same for all entries. Each entry's result is
  // that of a run of its own, up to rounding. Fails (user) where the model keeps states, is random, or has shapes that
  // depend on data. Open dimensions are given by `dims` and `shapes` instead.
  int64_t batch = 1;
  // Only these are computed; empty: all. They may be sliced: "logits[:, -1, :]". Several parts of one output are then
  // outputs by those texts, a single one keeps its name.
  std::vector<std::string> outputs = {};
  PassOptions passes = {.precision = Precision::fp32};  // on the CPU nothing is both as exact and faster
  // Which of an op's kernels are taken, with commas: "reference" or "sparkpilot::Gemm/dot" wherever it accepts,
  // "no-onednn" or "no-sparkpilot::Conv/simd" never. Where it is not empty the number of threads is not tried.
  std::string kernels = {};
  // Sessions that are given one store share their states by name, so that a program that updates parameters and one
  // that runs them see the same memory; they are run one at a time. Fails (user) where a state has another dtype or
  // shape there. Null: the session has a store of its own.
  std::shared_ptr<StateStore> states = nullptr;
  bool keep_values = false;  // keep every intermediate (visit_values)
  bool profile = false;
  bool trace = false;
};

// What a model takes or gives.
struct TensorInfo {
  std::string name = {};
  DType dtype = DType::none;
  std::vector<Dim> dims = {};       // as declared; size -1 where open
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
  // Gives an input with open dimensions its shape (and new memory where it changed); what `dims` and `shapes` fixed is
  // not open.
  void set_shape(std::string_view name, const Shape& shape);
  // Copies a tensor in: sets the shape too; fails (user) where dtype or fixed dimensions differ.
  void set_input(std::string_view name, const ConstView& value);

  // Compiles now what the first run would have to: every input's shape must be bound. Nothing happens where it is done.
  // Where no shape depends on data, there are no loops, and a run takes a fraction of a second, it also runs a few
  // times on the inputs' present contents, without a trace in states or profile: to find the number of threads, and
  // so that the first run finds its memory.
  void compile();
  // Computes the outputs from the inputs' present contents.
  void run();

  // Valid until the next run; fails (user) before the first.
  ConstView output(std::string_view name) const;
  template <typename T>
  std::span<const T> output(std::string_view name) const;

  // States: memory that one run leaves for the next. A run that fails leaves those that are updated in place as they
  // are then, perhaps changed.
  std::vector<std::string> states() const;
  View state(std::string_view name);
  // Initial contents again. Fails (user), and changes nothing, where a state cannot be reset (State::resettable).
  void reset_states();

  // Node times since the last reset (options.profile).
  Profile profile() const;
  // With keep_values: every named intermediate of the last run.
  void visit_values(const std::function<void(const std::string& name, const ConstView& view)>& visit) const;
  // The graph as it was compiled last; null before.
  const Graph* compiled_graph() const;
  int threads() const;          // of the plan in use
  int64_t arena_bytes() const;  // activations, outputs and scratch of the plan in use

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
