// Which of an op's candidates runs a node: one that is known to be best here, else the first that accepts and does not
// yield, or as somebody asked for.
#pragma once

#include <map>
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

  // From now on nodes with that problem_key() are run by that kernel, where it accepts and no list asks for anything. A
  // restored one stays when a measured one comes.
  void know(const std::string& key, std::string_view kernel, ChosenBy by);
  // What is known; null where nothing is.
  struct Known {
    std::string kernel;
    ChosenBy by = ChosenBy::measured;
  };
  const Known* known(const std::string& key) const;

  struct Taken {
    const Kernel* kernel = nullptr;  // null: none accepts
    // On the CPU `node` is empty where there is nothing to choose: the op has one kernel besides its reference.
    KernelDecision decision;
    std::vector<DeclinedKernel> declined;
  };
  Taken take(const Problem& problem, Device device = Device::cpu) const;

 private:
  struct Rule {
    std::string op, kernel;  // empty op: all
    bool off = false;
  };

  bool rules(const OpDef& op, std::string_view kernel, bool off) const;
  bool take_known(const Problem& problem, Device device, Taken& out) const;
  void take_by_rules(const Problem& problem, Device device, Taken& out) const;
  bool is_free(const Problem& problem, Device device, std::string_view kernel) const;

  std::vector<Rule> rules_;
  std::map<std::string, Known, std::less<>> known_;  // by problem_key()
  std::string only_;
};

}  // namespace sparkpilot
