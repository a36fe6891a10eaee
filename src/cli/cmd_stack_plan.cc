// sparkpilot stack plan and stack verify: how to make the stack native, and whether it is.
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/stack_flags.h"
#include "cli/terminal.h"
#include "stack/plan_scripts.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanFlags {
  StackFlags stack;
  std::string script;
};

stack::NamedGpu expected_target(const StackFlags& flags, const stack::Audit& audit) {
  const auto target = target_of(flags, audit);
  if (!target) fail("no GPU is known here; name one: --gpu gb10");
  return *target;
}

// Libraries can be prepared for another machine; what suits its GPU may not suit this machine's.
void note_other_gpu(const stack::NamedGpu& target, const stack::Audit& audit) {
  if (!audit.gpu || audit.gpu->capability == target.capability) return;
  note(fmt::format("this is for {}; the machine's own GPU is {}", described(target), described(*audit.gpu)));
}

void write_scripts(const PlanFlags& flags, const std::vector<stack::PlanStep>& steps) {
  const std::filesystem::path folder = flags.script;
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::vector<stack::Script> scripts = stack::plan_scripts(steps, none ? "sparkpilot" : self.string());
  for (const stack::Script& script : scripts) refuse_to_replace(folder / script.name, flags.stack.from);
  make_folders(folder);
  for (const stack::Script& script : scripts) {
    AtomicFile file(folder / script.name);
    file.write(script.text);
    if (script.runs) ::fchmod(file.fd(), 0755);
    file.commit();
  }
}

void print_plan(const std::vector<stack::PlanStep>& steps) {
  if (steps.empty()) return print("nothing to do: every check of stack verify is good\n");
  for (size_t i = 0; i < steps.size(); ++i) {
    const stack::PlanStep& step = steps[i];
    print(fmt::format("{:2}. {}\n    why   {}\n    size  {}\n    done  when {}\n", i + 1,
                      painted(step.title, Paint::bold), one_line(step.reason), step.size, step.check));
  }
}

int plan(const Program& program, const PlanFlags& flags) {
  const stack::Audit audit = audit_of(program, flags.stack);
  const stack::NamedGpu target = expected_target(flags.stack, audit);
  const std::vector<stack::PlanStep> steps = stack::plan_stack(audit, target);
  if (!flags.script.empty()) write_scripts(flags, steps);
  if (program.json) {
    Json list = Json::array();
    for (const stack::PlanStep& step : steps) {
      list.push_back({{"id", step.id},
                      {"title", step.title},
                      {"reason", step.reason},
                      {"size", step.size},
                      {"check", step.check}});
    }
    print_json({{"gpu", stack::json_gpu(target)},
                {"own_gpu", stack::json_gpu(audit.gpu)},
                {"steps", list},
                {"script", flags.script.empty() ? Json() : Json(flags.script)}});
    return kDone;
  }
  print_plan(steps);
  note_other_gpu(target, audit);
  if (!flags.script.empty())
    print(fmt::format("\n{}/run.sh does it; versions are in {}/versions.sh\n", flags.script, flags.script));
  return kDone;
}

int verify(const Program& program, const StackFlags& flags) {
  const stack::Audit audit = audit_of(program, flags);
  const stack::NamedGpu target = expected_target(flags, audit);
  const std::vector<stack::StackCheck> checks = stack::check_stack(audit, target);
  bool good = true;
  Json list = Json::array();
  Table table({"step", "", "expected", "seen"});
  for (const stack::StackCheck& check : checks) {
    good = good && check.good;
    list.push_back({{"step", check.step}, {"good", check.good}, {"expected", check.expected}, {"seen", check.seen}});
    table.add({check.step, check.good ? painted("good", Paint::good) : painted("bad", Paint::bad), check.expected,
               one_line(check.seen)});
  }
  if (program.json) {
    print_json(
        {{"gpu", stack::json_gpu(target)}, {"own_gpu", stack::json_gpu(audit.gpu)}, {"good", good}, {"checks", list}});
  } else {
    print(table.str());
    note_other_gpu(target, audit);
  }
  return good ? kDone : kCheckFailed;
}

}  // namespace

void add_stack_plan(Program& program, Command group) {
  const auto flags = std::make_shared<PlanFlags>();
  const Command planner =
      add_command(program, group, "plan", "print what to install and build to make the stack native for a DGX Spark",
                  "  sparkpilot stack plan\n"
                  "  sparkpilot stack plan --gpu gb10 --script native-stack && native-stack/run.sh",
                  [&program, flags] { return plan(program, *flags); });
  add_stack_flags(planner, flags->stack);
  planner.add_option("--script", flags->script, "write the steps as shell scripts into this folder").type_name("DIR");
  add_report_flags(program, planner);

  const auto verify_flags = std::make_shared<StackFlags>();
  const Command verifier =
      add_command(program, group, "verify", "check whether the stack is native for a DGX Spark; exit code 4 if not",
                  "  sparkpilot stack verify\n"
                  "  sparkpilot stack verify --gpu gb10 --from audit.json --json",
                  [&program, verify_flags] { return verify(program, *verify_flags); });
  add_stack_flags(verifier, *verify_flags);
  add_report_flags(program, verifier);
}

}  // namespace sparkpilot::cli
