// Chooses the kernel that runs a node: the one requested by the user, else the one known to be fastest here, else the
// first candidate that accepts and does not yield; and on a GPU its variant: the one known to be fastest, else the
// first.
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
  // `text` is a list separated by commas; empty: no requests. An item is KERNEL, for every op that has it, or
  // OP/KERNEL, named as in the table of ops and in profiles ("onednn", "sparkpilot::Gemm/dot"). That kernel is taken
  // first wherever it accepts. With "no-" before it, it is never taken, and the next one that accepts is. Fails (user)
  // on an unknown name, listing the known ones, and if a reference is switched off, since no candidate comes after it.
  explicit KernelChoice(std::string_view text = {});
  // Uses only candidates of that name.
  static KernelChoice only(std::string_view kernel);

  bool empty() const { return rules_.empty(); }

  // From now on nodes with this problem_key() are run by `kernel`, if it accepts and there are no requests. A variant's
  // name follows that of its kernel: "tiles 64x64". A measured kernel does not replace a restored one.
  void know(const std::string& key, std::string_view kernel, ChosenBy by);
  // What is known for a key; null if nothing is.
  struct Known {
    std::string kernel;
    ChosenBy by = ChosenBy::measured;
  };
  const Known* known(const std::string& key) const;

  struct Taken {
    const Kernel* kernel = nullptr;  // null: none accepts
    std::string variant = {};        // empty: the one that the kernel prepares
    // `node` is empty if there is nothing to choose: the op has only one kernel besides its reference, or on a GPU the
    // kernel one variant.
    KernelDecision decision;
    std::vector<DeclinedKernel> declined;
  };
  Taken take(const Problem& problem, Device device = Device::cpu) const;

 private:
  struct Rule {
    std::string op, kernel;  // empty op: all ops
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
