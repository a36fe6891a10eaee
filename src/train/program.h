// The programs of training: three graphs over shared states, compiled once and run by turns.
//
//   TrainingProgram program(std::move(graph), loss, parameters, {.session = {.threads = 2}});
//   for (int i = 0; i < micro_batches; ++i) {
//     ... write program.input("x") ...
//     program.run_gradients();                      // program.loss(), program.report(i)
//   }
//   if (std::isfinite(program.gradient_norm())) program.update(rate, clip);
//
//   gradients  the forward and the backward pass of a micro-batch; adds to the gradient sums
//   update     the mean over micro-batches, clipping by the global norm, the optimizer, the moving average
//   evaluate   the forward pass alone, with the parameters or their moving average; or only a part of it
//
// Parameters, moments, gradient sums and averages are states of a StateStore, in memory once; the gradient sums lie
// side by side in one piece. The number of threads is fixed. Nothing is allocated in a step or an evaluation, after the
// first. Between the gradients and the update the sums may be changed (gradient_sums()), as an exchange among processes
// does. On a GPU the states stay there, and a run copies nothing back but loss, reports and norm. Not thread-safe.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparkpilot/builder.h"
#include "sparkpilot/error.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
class GpuDevice;
}

namespace sparkpilot::train {

// What is trained: a constant of the graph, or a state of it that no node renews, of f32.
struct Parameter {
  ValueId value;
  std::string name;   // of its state; not empty, unique
  bool decay = true;  // whether the optimizer decays it; not for biases and magnitudes
};

enum class Optimizer : uint8_t {
  adamw,  // decoupled decay (Loshchilov and Hutter, 2019)
  sgd,    // d = g + decay x; v' = momentum v + d; x' = x - rate v'
};

// What ProgramOptions::extra_updates may use to add nodes to the update.
class ExtraUpdates {
 public:
  // `copy`: of a state, where the program's device reaches it.
  ExtraUpdates(Builder& builder, StateStore& store, std::function<Tensor(const Tensor&)> copy,
               const std::map<std::string, ValueId>& updated, std::string suffix)
      : b(builder), store_(store), copy_(std::move(copy)), updated_(updated), suffix_(std::move(suffix)) {}

  Builder& b;
  // A parameter's value after the update. Fails (internal) if there is no such parameter.
  ValueId updated(const std::string& parameter) const;
  // Sets what a state of the graph holds after the update. It must be a state that no node of the graph renews, and
  // `value` have its type.
  void renew(const std::string& state, ValueId value);
  const std::vector<std::string>& renewed() const { return renewed_; }

 private:
  StateStore& store_;
  std::function<Tensor(const Tensor&)> copy_;
  const std::map<std::string, ValueId>& updated_;
  std::string suffix_;
  std::vector<std::string> renewed_;
};

// Which evaluation is meant. A bool stands for one of the whole.
struct Evaluation {
  bool average = false;             // with the moving average of the parameters
  std::optional<size_t> part = {};  // of ProgramOptions::parts: that value alone; empty: the loss and the reports

  Evaluation(bool average = false, std::optional<size_t> part = {}) : average(average), part(part) {}
  auto operator<=>(const Evaluation&) const = default;
};

struct ProgramOptions {
  Optimizer optimizer = Optimizer::adamw;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  // adamw
  float momentum = 0.9f;                                // sgd; 0: none, and no memory for it
  float weight_decay = 0.01f;
  // Of the moving average: average' = ema average + (1 - ema) x'. 0: no average.
  float ema = 0;
  // Of one update, at most. With 1 the gradients are written where the sums lie, without an addition.
  int micro_batches = 1;
  // Bytes that the gradients' program may take for activations, results and, on the CPU, scratch: forward values are
  // computed again in the backward half until it does (passes/recompute.h), with the same results to the last bit. 0:
  // any number.
  int64_t max_activations = 0;
  // Adds nodes that renew states with the parameters, such as the norms that DoRA divides by. Called again for the
  // moving averages, whose states then have the suffix "/ema". Null: none.
  std::function<void(ExtraUpdates&)> extra_updates = nullptr;
  // Values of the graph, each with a name of its own, that an evaluation can compute alone (Evaluation::part), without
  // what only the loss needs.
  std::vector<std::pair<std::string, ValueId>> parts = {};
  // Device ("cpu", "cuda" or "cuda:N"; not "auto"), threads (0: all processors of this process), kernels, tuning and
  // passes. Its states, outputs and choices are not used. With PassOptions::precision bf16 the products and
  // convolutions of the gradients and of evaluations read 16 bits and add up in f32 (passes/precision.h says what stays
  // in f32); every state and the update are f32. bf16 has f32's exponents, so the loss needs no scale.
  SessionOptions session = {};
  // TrainingProgram::choices() of an earlier one: the same kernels.
  std::map<std::string, std::vector<KernelDecision>> choices = {};
};

// Thrown if ProgramOptions::max_activations cannot be reached (user).
class TooFewBytes : public Error {
 public:
  TooFewBytes(const std::string& message, int64_t least) : Error(ErrorKind::user, message), least_(least) {}
  int64_t least() const { return least_; }  // the fewest that work

 private:
  int64_t least_;
};

class TrainingProgram {
 public:
  // `graph` is one that was prepared (passes/pass.h): f32, all shapes fixed. `loss` has one element; `reports` are
  // other values that are kept for the caller after each run, by name. Constants that are parameters are copied, the
  // graph's states start with their initial contents. Fails (user) if an op has no gradient, naming it; if the
  // precision is fp16, or bf16 on a GPU or a processor without its arithmetic; if a parameter
  // is not f32, or has the name of another; if the loss depends on no parameter; naming them, if nodes of the programs
  // have no kernel for the GPU that was chosen; TooFewBytes.
  TrainingProgram(Graph graph, ValueId loss, std::vector<Parameter> parameters,
                  const std::vector<std::pair<std::string, ValueId>>& reports = {}, ProgramOptions options = {});
  ~TrainingProgram();
  TrainingProgram(TrainingProgram&&) noexcept;
  TrainingProgram& operator=(TrainingProgram&&) noexcept;

  // --- the gradients of one micro-batch
  const std::vector<TensorInfo>& inputs() const;
  View input(std::string_view name);  // written in place
  // Fails (internal) after ProgramOptions::micro_batches runs without update() or discard().
  void run_gradients();
  int micro_batches() const;  // since the last update
  double loss() const;        // of the last run
  ConstView report(size_t i) const;
  const std::vector<std::string>& report_names() const;

  // --- the update
  // The L2 norm of the mean gradient over the micro-batches; not finite if any gradient is not.
  double gradient_norm();
  // Changes the parameters by the mean gradient, scaled down to the norm `clip` where that is above 0 and smaller.
  // Fails (internal) without a micro-batch, and if the norm is not finite.
  void update(double rate, double clip = 0);
  // Forgets the micro-batches since the last update.
  void discard();
  int64_t updates() const;  // so far; the contents of the state "updates"

  // --- evaluation: each kind is compiled when it is first asked for, and has its inputs and results in its own memory
  View evaluation_input(std::string_view name, const Evaluation& which = {});
  void run_evaluation(const Evaluation& which = {});
  double evaluation_loss(bool average = false) const;
  ConstView evaluation_report(size_t i, bool average = false) const;
  ConstView evaluation_part(const Evaluation& which) const;  // which.part must not be empty

  // --- states
  // All that training changes, besides the gradient sums: parameters by their names; moments "NAME/m" and "NAME/v";
  // averages "NAME/ema"; "updates"; the graph's own states. What is written there before the next run is used from then
  // on.
  std::vector<std::string> states() const;
  const Tensor& state(std::string_view name) const;
  const std::vector<Parameter>& parameters() const;
  // The sums of all parameters in their order, with gaps up to multiples of 64 bytes, which hold zeros. May be changed
  // until the next run; from a GPU they are copied here and back.
  std::span<float> gradient_sums();
  // The same in the GPU's memory, where nothing is copied; only work for the GPU may use it. There must be a GPU.
  std::span<float> gradient_sums_on_gpu();
  // Where it runs: "cpu", or a GPU as "cuda:0 NVIDIA GB10".
  std::string device() const;
  std::shared_ptr<GpuDevice> gpu() const;  // null: the CPU
  // As given, with the number of threads in use.
  const ProgramOptions& options() const;
  // Activations, results and scratch of all programs that were compiled; written from their first runs on.
  int64_t arena_bytes() const;
  // Of these, what the gradients' program takes, and what it computes again to do so.
  struct Activations {
    int64_t bytes = 0;
    int nodes_again = 0;
    double share_again = 0;  // of the program's work without that, as estimated from operations and bytes
  };
  Activations activations() const;
  // Of the gradients' nodes, with ProgramOptions::session.profile.
  Profile profile() const;
  // On a GPU: what a run of each program launches and copies, by its name. Known after its first run.
  std::map<std::string, Session::Transfers> transfers() const;
  // Of each program that was compiled, by its name.
  std::map<std::string, std::vector<KernelDecision>> choices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::train
