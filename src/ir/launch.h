// From a node to the kernel that runs it: its problem, the chosen candidate, and the state that the candidate prepared.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/kernel_choice.h"
#include "ir/op.h"
#include "sparkpilot/error.h"

namespace sparkpilot {

// The problem of a node: its types and constants as the graph knows them. The shapes of its inputs must be known, and
// those of its outputs too unless the op is dynamic. The graph must outlive this object.
class NodeProblem {
 public:
  // Inputs whose bit is set in `variable` are not treated as constants.
  NodeProblem(const Graph& graph, NodeId id, uint64_t variable = 0);

  // Valid while this object is neither moved nor destroyed.
  Problem problem() const { return {.node = node_, .inputs = inputs_, .outputs = outputs_, .constants = constants_}; }
  std::span<const TensorType> inputs() const { return inputs_; }
  std::span<const TensorType> outputs() const { return outputs_; }
  std::span<const Tensor> constants() const { return constants_; }  // by input; not present() if it is not a constant

 private:
  const Node* node_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<Tensor> constants_;
};

// A node's kernel, chosen and prepared.
struct Launch {
  const Kernel* kernel = nullptr;
  KernelDecision decision;               // as in KernelChoice::Taken
  std::vector<DeclinedKernel> declined;  // candidates that come before it
  std::unique_ptr<KernelState> state;    // null if the kernel needs none
};

// Thrown if no candidate accepts a node (user).
class NoKernel : public Error {
 public:
  NoKernel(const std::string& message, std::string reason)
      : Error(ErrorKind::user, message), reason_(std::move(reason)) {}
  // Why the last candidate that was asked did not accept; empty if it gave no reason.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Chooses a kernel on `device` and prepares it. Throws NoKernel, with op, types and node in the message; fails (device)
// on a processor without the instructions that kernels are compiled for (hw/cpu.h).
Launch launch(const Graph& graph, NodeId id, const Problem& problem, const KernelChoice& choice,
              Device device = Device::cpu);

// Throws `error` with op and node added to its message.
[[noreturn]] void fail_at(const Graph& graph, NodeId id, const Error& error);

}  // namespace sparkpilot
