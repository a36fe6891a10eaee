// From a node to what runs it: the problem that it poses, the candidate that takes it, and what that prepared.
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

// A node's types and constants as its graph knows them. Its inputs' shapes are known; those of its outputs are, unless
// the op is dynamic. The graph must outlive it.
class NodeProblem {
 public:
  // Inputs with a bit in `variable` are taken for no constants.
  NodeProblem(const Graph& graph, NodeId id, uint64_t variable = 0);

  // Valid while this object stays where it is.
  Problem problem() const { return {.node = node_, .inputs = inputs_, .outputs = outputs_, .constants = constants_}; }
  std::span<const TensorType> inputs() const { return inputs_; }
  std::span<const TensorType> outputs() const { return outputs_; }
  std::span<const Tensor> constants() const { return constants_; }  // by input; not present() where it is no constant

 private:
  const Node* node_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<Tensor> constants_;
};

struct Launch {
  const Kernel* kernel = nullptr;
  KernelDecision decision;               // as KernelChoice::Taken has it
  std::vector<DeclinedKernel> declined;  // candidates that come before it
  std::unique_ptr<KernelState> state;    // null where the kernel needs none
};

// No candidate takes a node (user).
class NoKernel : public Error {
 public:
  NoKernel(const std::string& message, std::string reason)
      : Error(ErrorKind::user, message), reason_(std::move(reason)) {}
  // Why the last one that was asked does not; empty where it did not say.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Chooses a kernel on `device` and prepares it. Throws NoKernel, with op, types and node.
Launch launch(const Graph& graph, NodeId id, const Problem& problem, const KernelChoice& choice,
              Device device = Device::cpu);

// `error` with op and node added to its message.
[[noreturn]] void fail_at(const Graph& graph, NodeId id, const Error& error);

}  // namespace sparkpilot
