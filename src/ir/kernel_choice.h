// Which of an op's candidates runs a node: the first that accepts, as somebody asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "sparkpilot/profile.h"

namespace sparkpilot {

class KernelChoice {
 public:
  // A list with commas; empty: nobody asked for anything. A candidate is KERNEL, in every op that has it, or OP/KERNEL,
  // as the table of ops and profiles name them ("onednn", "sparkpilot::Gemm/dot"): it comes first wherever it accepts.
  // With "no-" before it, it is never taken and the next one that accepts is. Fails (user) on a name that is none, with
  // those that are, and where a reference is switched off, as nothing comes behind it.
  explicit KernelChoice(std::string_view text = {});
  // The candidate of that name and no other.
  static KernelChoice only(std::string_view kernel);

  bool empty() const { return rules_.empty(); }

  struct Taken {
    const Kernel* kernel = nullptr;  // null: none accepts
    std::vector<DeclinedKernel> declined;
  };
  Taken take(const Problem& problem, Device device = Device::cpu) const;

 private:
  struct Rule {
    std::string op, kernel;  // empty op: all
    bool off = false;
  };

  bool rules(const OpDef& op, std::string_view kernel, bool off) const;
  bool is_free(const Problem& problem, Device device, std::string_view kernel) const;

  std::vector<Rule> rules_;
  std::string only_;
};

}  // namespace sparkpilot
