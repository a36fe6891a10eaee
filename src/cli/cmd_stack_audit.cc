// sparkpilot stack audit: the GPU code in every library of the ML stack, and what it means for a given GPU.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "cli/command.h"
#include "cli/stack_flags.h"
#include "cli/terminal.h"
#include "stack/diff.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AuditFlags {
  StackFlags stack;
  std::vector<std::string> diff;
  bool all = false;
};

// "sm_75 80 90a 120f, PTX 120"
std::string text_code(const stack::GpuCode& code) {
  std::set<stack::CodeTarget> targets;
  for (const stack::CodeGroup& group : code.groups) targets.insert(group.target);
  std::string sass, ptx, lto;
  for (const stack::CodeTarget& target : targets) {
    std::string number = std::to_string(target.number);
    if (target.suffix) number += target.suffix;
    std::string& list = target.kind == stack::CodeKind::sass ? sass : target.kind == stack::CodeKind::ptx ? ptx : lto;
    list += (list.empty() ? "" : " ") + number;
  }
  std::string text = sass.empty() ? "" : "sm_" + sass;
  if (!ptx.empty()) text += (text.empty() ? "PTX " : ", PTX ") + ptx;
  if (!lto.empty()) text += (text.empty() ? "LTO " : ", LTO ") + lto;
  return text;
}

// The newest GPU that a compiler supports is enough.
std::string text_compiles(const stack::Library& library) {
  return library.compiles_for.empty() ? "" : "up to " + library.compiles_for.back().str();
}

std::string text_standing(const stack::Verdict& verdict) {
  using stack::Standing;
  std::string text(name_of(verdict.standing));
  switch (verdict.standing) {
    case Standing::native:
    case Standing::compiles: return painted(text, Paint::good);
    case Standing::none:
    case Standing::too_old:
    case Standing::wrong_machine:
    case Standing::unreadable: return painted(text, Paint::bad);
    case Standing::no_gpu_code: return painted("-", Paint::dim);
    case Standing::family:
    case Standing::jit: break;
  }
  return text;
}

// Libraries without GPU code are hidden unless all are asked for.
bool is_shown(const stack::Library& library, bool all) {
  return all || !library.code.empty() || !library.compiles_for.empty() || !library.trouble.empty();
}

// Files by their cost in words, since many files share a sentence.
using Costs = std::map<std::string, std::vector<std::string>>;

void print_costs(const Costs& costs) {
  constexpr size_t kNamed = 4;
  if (costs.empty()) return;
  print("\n" + painted("What it costs", Paint::bold) + "\n");
  for (const auto& [cost, files] : costs) {
    std::string names;
    for (size_t i = 0; i < std::min(files.size(), kNamed); ++i) names += (i > 0 ? ", " : "") + files[i];
    if (files.size() > kNamed) names += fmt::format(" and {} more", files.size() - kNamed);
    print(fmt::format("  {}: {}\n", one_line(cost), one_line(names)));
  }
}

std::string text_containers(const stack::Verdict& verdict) {
  return fmt::format("{}/{}/{}/{}", verdict.native, verdict.family, verdict.jit, verdict.none);
}

void print_libraries(const stack::Audit& audit, const std::optional<stack::NamedGpu>& target, bool all) {
  Table table(target ? std::vector<std::string>{"component", "version", "GPU code", "containers", "verdict", "file"}
                     : std::vector<std::string>{"component", "version", "GPU code", "file"});
  int64_t hidden = 0;
  Costs costs;
  for (const stack::Library& library : audit.libraries) {
    const stack::Verdict verdict = target ? judge(library, target->capability, target->machine) : stack::Verdict{};
    if (!verdict.cost.empty()) costs[verdict.cost].push_back(library.path.substr(library.path.find_last_of("/!") + 1));
    if (!is_shown(library, all)) {
      ++hidden;
      continue;
    }
    std::string code = text_code(library.code);
    if (code.empty()) code = text_compiles(library);
    std::vector<std::string> row{library.component.empty() ? "-" : library.component,
                                 library.version.empty() ? "-" : one_line(library.version), code.empty() ? "-" : code};
    if (target) {
      row.push_back(library.code.empty() ? "" : text_containers(verdict));
      row.push_back(text_standing(verdict));
    }
    row.push_back(one_line(library.path));
    table.add(std::move(row));
  }
  const char* rest = hidden == 1 ? "library" : "libraries";
  if (hidden == std::ssize(audit.libraries)) {
    print(fmt::format("{} {} without GPU code (--all lists them)\n", hidden, rest));
  } else {
    print(table.str());
    if (target) print("containers: native/family/JIT/not for this GPU\n");
    if (hidden > 0) print(fmt::format("and {} {} without GPU code (--all lists them)\n", hidden, rest));
  }
  print_costs(costs);
}

void print_audit(const stack::Audit& audit, const std::optional<stack::NamedGpu>& target, bool all, bool whole) {
  if (target) print(fmt::format("{}: {}\n\n", painted("for", Paint::bold), described(*target)));
  if (audit.libraries.empty()) print("no library of an ML stack was found\n");
  else print_libraries(audit, target, all);
  std::string absent;
  for (const std::string_view component : absent_components(audit))
    absent += (absent.empty() ? "" : ", ") + std::string(component);
  if (whole && !absent.empty()) print("\nnot found: " + absent + "\n");
  for (const std::string& text : audit.notes) note(one_line(text));
  if (!target) note("no GPU is known here: name one for verdicts, such as --gpu gb10");
}

// --- differences

Json json_difference(const stack::Difference& one, const std::optional<stack::NamedGpu>& target) {
  const auto side = [&](const stack::Library* library) {
    if (!library) return Json();
    Json object{{"path", library->path},
                {"version", library->version.empty() ? Json() : Json(library->version)},
                {"machine", library->machine.empty() ? Json() : Json(library->machine)}};
    if (target) object["standing"] = name_of(judge(*library, target->capability, target->machine).standing);
    return object;
  };
  return {{"component", one.component}, {"file", one.file},     {"a", side(one.a)},
          {"b", side(one.b)},           {"gained", one.gained}, {"lost", one.lost}};
}

std::string joined(const std::vector<std::string>& words, const char* sign) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + (sign + word);
  return text;
}

void print_differences(const std::vector<stack::Difference>& list, const std::optional<stack::NamedGpu>& target) {
  if (list.empty()) return print("no difference\n");
  Table table({"component", "file", "a", "b", "GPU code"});
  for (const stack::Difference& one : list) {
    const auto side = [&](const stack::Library* library) {
      if (!library) return std::string("-");
      std::string text = library->version.empty() ? "there" : one_line(library->version);
      if (target) text += ", " + std::string(name_of(judge(*library, target->capability, target->machine).standing));
      if (one.a && one.b && one.a->machine != one.b->machine) text += ", " + library->machine;
      return text;
    };
    std::string code;
    if (one.a && one.b) {
      code = joined(one.lost, "-");
      if (!one.lost.empty() && !one.gained.empty()) code += ' ';
      code += joined(one.gained, "+");
    }
    table.add({one.component.empty() ? "-" : one.component, one_line(one.file), side(one.a), side(one.b), code});
  }
  print(table.str());
}

int run_diff(const Program& program, const AuditFlags& flags) {
  if (!flags.stack.from.empty() || !flags.stack.paths.empty() || !flags.stack.environments.empty())
    fail("--diff names both sides: --from, --path and --python have no effect with it");
  if (flags.stack.root != "/" && flags.diff[0].ends_with(".json") && flags.diff[1].ends_with(".json"))
    fail("--root has no effect with --diff of two files");
  const stack::Audit a = audit_of(program, flags.stack, flags.diff[0]),
                     b = audit_of(program, flags.stack, flags.diff[1]);
  const auto target = target_of(flags.stack, b);
  const auto list = stack::compare(a, b);
  if (!program.json) {
    print_differences(list, target);
    return kDone;
  }
  Json differences = Json::array();
  for (const stack::Difference& one : list) differences.push_back(json_difference(one, target));
  print_json({{"a", flags.diff[0]}, {"b", flags.diff[1]}, {"differences", differences}});
  return kDone;
}

int run_audit(const Program& program, const AuditFlags& flags) {
  if (!flags.diff.empty()) return run_diff(program, flags);
  const stack::Audit audit = audit_of(program, flags.stack);
  const auto target = target_of(flags.stack, audit);
  if (program.json) print_json(audit_json(audit, target));
  else print_audit(audit, target, flags.all, flags.stack.paths.empty() && flags.stack.environments.empty());
  return kDone;
}

}  // namespace

void add_stack_audit(Program& program, Command group) {
  const auto flags = std::make_shared<AuditFlags>();
  const Command command =
      add_command(program, group, "audit", "print the GPU code of every ML library, and what it means for a GPU",
                  "  sparkpilot stack audit\n"
                  "  sparkpilot stack audit --gpu gb10 --python ~/.venv\n"
                  "  sparkpilot stack audit --gpu gb10 --path torch-2.9.1-cp312-cp312-linux_aarch64.whl\n"
                  "  sparkpilot stack audit --diff before.json after.json",
                  [&program, flags] { return run_audit(program, *flags); });
  add_stack_flags(command, flags->stack);
  command.add_option("--diff", flags->diff, "compare two environments, folders, or files that --json wrote")
      .values(2, 2)
      .type_name("A B");
  command.add_flag("--all", flags->all, "list libraries without GPU code, too");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
