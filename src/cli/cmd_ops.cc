// sparkpilot ops: the op table, its check on this machine, its speed.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "base/parallel.h"
#include "bench/gradient_check.h"
#include "bench/op_bench.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "ops/check_gpu.h"
#include "runtime/gpu_compile.h"
#include "tensor/gpu.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct OpsFlags {
  std::vector<std::string> names;
  bool markdown = false, gradients = false;
  uint64_t seed = 1;
  double ms_each = 20;
  std::string device = "cpu";
};

bool wanted(const OpDef& op, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), qualified(op)) != names.end();
}

// Ops by name; versions of the same op follow each other, the newest first.
std::vector<const OpDef*> ops_named(const std::vector<std::string>& names) {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops()) {
    if (wanted(*op, names)) ops.push_back(op);
  }
  for (const std::string& text : names) {
    const bool found = std::any_of(ops.begin(), ops.end(), [&](const OpDef* op) { return qualified(*op) == text; });
    if (found) continue;
    std::vector<std::string> known;
    for (const OpDef* op : all_ops()) known.push_back(qualified(*op));
    fail("no op is named \"{}\"{}; ops list prints them", text, did_you_mean(text, known));
  }
  std::sort(ops.begin(), ops.end(), [](const OpDef* a, const OpDef* b) {
    return std::pair(qualified(*a), -a->since) < std::pair(qualified(*b), -b->since);
  });
  return ops;
}

std::string kernels_of(const OpDef& op) {
  if (!op.refused.empty()) return fmt::format("refused: {}", op.refused);
  std::string out;
  for (const Kernel& kernel : op.cpu) out += (out.empty() ? "" : ", ") + std::string(kernel.name);
  return out.empty() ? "as simpler ops" : out;
}

std::string cuda_kernels_of(const OpDef& op) {
  std::string out;
  for (const Kernel& kernel : op.cuda) out += (out.empty() ? "" : ", ") + std::string(kernel.name);
  return out;
}

std::string traits_of(const OpDef& op) {
  std::string out;
  const auto take = [&](bool has, const char* name) {
    if (has) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  };
  take(op.traits.elementwise, "elementwise");
  take(op.traits.view, "view");
  take(op.traits.in_place != nullptr, "in place");
  take(op.traits.channels_last, "channels last");
  take(op.traits.dynamic, "dynamic");
  take(!op.traits.pure, "not pure");
  take(op.grad != nullptr, "gradient");
  return out;
}

std::string arity_of(const Arity& arity) {
  if (arity.least == arity.most) return std::to_string(arity.least);
  return fmt::format("{} to {}", arity.least, arity.most == kMany ? "many" : std::to_string(arity.most));
}

std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

void print_markdown(const std::vector<const OpDef*>& ops) {
  print(
      "# Ops\n\nPrinted by `sparkpilot ops list --markdown` from the op table; do not edit.\n\n"
      "An op's row with the highest \"since\" that is not above a model's operator set is the one that counts. "
      "Kernels are tried from left to right; \"as simpler ops\" means that the op is rewritten before it runs. On a "
      "GPU, what "
      "no CUDA kernel takes runs on the CPU.\n\n"
      "| op | since | inputs | outputs | CPU kernels | CUDA kernels | traits | |\n|---|---|---|---|---|---|---|---|\n");
  for (const OpDef* op : ops) {
    print(fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", qualified(*op), op->since, arity_of(op->inputs),
                      arity_of(op->outputs), markdown_cell(kernels_of(*op)), markdown_cell(cuda_kernels_of(*op)),
                      traits_of(*op), markdown_cell(op->doc)));
  }
  std::map<std::string_view, std::string> without;
  for (const OpDef* op : ops) {
    if (op->no_gradient.empty()) continue;
    std::string& names = without[op->no_gradient];
    names += (names.empty() ? "" : ", ") + qualified(*op);
  }
  print(
      "\n# Without a gradient\n\nAn op that is not marked `gradient` is differentiated as the simpler ops that it is "
      "written as. Training refuses these:\n\n| because | ops |\n|---|---|\n");
  for (const auto& [reason, names] : without) print(fmt::format("| {} | {} |\n", reason, names));
}

Json op_json(const OpDef& op) {
  Json kernels = Json::array();
  for (const Kernel& kernel : op.cpu) kernels.push_back(kernel.name);
  Json cuda_kernels = Json::array();
  for (const Kernel& kernel : op.cuda) cuda_kernels.push_back(kernel.name);
  Json out{{"name", op.name},
           {"domain", op.domain},
           {"since", op.since},
           {"doc", op.doc},
           {"kernels", kernels},
           {"cuda_kernels", cuda_kernels},
           {"expands", op.expand != nullptr},
           {"has_gradient", op.grad != nullptr}};
  if (!op.no_gradient.empty()) out["no_gradient"] = op.no_gradient;
  if (!op.refused.empty()) out["refused"] = op.refused;
  return out;
}

int list_ops(const Program& program, const OpsFlags& flags) {
  const std::vector<const OpDef*> ops = ops_named(flags.names);
  if (flags.markdown) {
    if (program.json) fail("--markdown and --json: expected one of them");
    print_markdown(ops);
    return kDone;
  }
  Json rows = Json::array();
  Table table({"op", "since", "kernels", "traits", ""});
  for (const OpDef* op : ops) {
    rows.push_back(op_json(*op));
    table.add({qualified(*op), std::to_string(op->since), kernels_of(*op), traits_of(*op), std::string(op->doc)});
  }
  if (program.json) print_json({{"ops", rows}});
  else print(table.str());
  return kDone;
}

// The results for one op, in the order of its cases; on a GPU also in f16 and bf16.
std::vector<CheckResult> check_one(const OpDef& op, const OpsFlags& flags, GpuDevice* gpu) {
  if (flags.gradients) return check_gradients(op, flags.seed);
  if (gpu) return check_op_on_gpu(op, flags.seed, *gpu);
  std::vector<CheckResult> results;
  for (const OpCase& op_case : op.cases ? op.cases() : std::vector<OpCase>{}) {
    for (CheckResult& result : check_case(op, op_case, flags.seed)) results.push_back(std::move(result));
  }
  if (results.empty()) results.push_back({qualified(op), "", "", CheckResult::failed, 0, 0, "the op has no cases"});
  return results;
}

// Whether there is something to check.
bool checkable(const OpDef& op, const OpsFlags& flags, bool on_gpu) {
  if (flags.gradients) return op.cases && (op.grad || op.expand);
  if (on_gpu) return !op.cuda.empty() && !op.cpu.empty() && op.cases;
  return !op.cpu.empty() || op.cases;
}

int check_ops(const Program& program, const OpsFlags& flags) {
  constexpr const char* kOutcomes[] = {"passed", "failed", "skipped"};
  std::vector<const OpDef*> ops = ops_named(flags.names);
  const std::optional<int> ordinal = gpu_of_device(flags.device);
  if (flags.gradients && ordinal) fail("--gradients: checked on the CPU only, not with --device {}", flags.device);
  const std::shared_ptr<GpuDevice> gpu = ordinal ? GpuDevice::open(*ordinal) : nullptr;
  std::erase_if(ops, [&](const OpDef* op) { return !checkable(*op, flags, gpu != nullptr); });
  Json rows = Json::array();
  Table table({"op", "case", "kernel", "error", "allowed", "outcome", ""});
  int counts[3] = {};
  {
    Progress progress(!program.quiet, "");
    for (size_t i = 0; i < ops.size(); ++i) {
      progress.what(qualified(*ops[i]));
      progress.at(static_cast<double>(i) / static_cast<double>(ops.size()));
      for (const CheckResult& r : check_one(*ops[i], flags, gpu.get())) {
        const bool compared = r.outcome != CheckResult::skipped;
        ++counts[r.outcome];
        rows.push_back({{"op", r.op},
                        {"case", r.case_name},
                        {"kernel", r.kernel},
                        {"outcome", kOutcomes[r.outcome]},
                        {flags.gradients ? "relative_error" : "relative_l2", compared ? Json(r.error) : Json()},
                        {"tolerance", compared ? Json(r.tolerance) : Json()},
                        {"message", r.message}});
        // All rows if ops were named, else only the failures.
        if (flags.names.empty() && r.outcome != CheckResult::failed) continue;
        const bool bad = r.outcome == CheckResult::failed;
        table.add({r.op, r.case_name, r.kernel, compared ? fmt::format("{:.2g}", r.error) : "-",
                   compared ? fmt::format("{:.2g}", r.tolerance) : "-",
                   painted(kOutcomes[r.outcome], bad ? Paint::bad : Paint::good), r.message});
      }
    }
  }
  if (program.json) {
    print_json({{"seed", flags.seed},
                {"device", gpu ? Json(gpu->facts().name) : Json("cpu")},
                {"passed", counts[CheckResult::passed]},
                {"failed", counts[CheckResult::failed]},
                {"skipped", counts[CheckResult::skipped]},
                {"results", rows}});
  } else {
    if (!flags.names.empty() || counts[CheckResult::failed] > 0) print(table.str());
    print(fmt::format("{} ops: {} passed, {} failed, {} skipped\n", ops.size(), counts[CheckResult::passed],
                      counts[CheckResult::failed], counts[CheckResult::skipped]));
  }
  return counts[CheckResult::failed] > 0 ? kCheckFailed : kDone;
}

int bench_ops(const Program& program, const OpsFlags& flags) {
  if (!(flags.ms_each > 0)) fail("--ms: expected more than 0, got {}", flags.ms_each);
  int threads = chosen_threads(program).value_or(1);
  if (threads == 0) threads = available_processors();
  std::vector<const OpDef*> ops = ops_named(flags.names);
  ops.erase(std::remove_if(ops.begin(), ops.end(), [](const OpDef* op) { return op->cpu.empty() && !op->cases; }),
            ops.end());
  Json rows = Json::array();
  Table table({"op", "case", "kernel", "input", "us", "GFLOP/s", "GB/s"});
  {
    Progress progress(!program.quiet, "");
    for (size_t i = 0; i < ops.size(); ++i) {
      progress.what(qualified(*ops[i]));
      progress.at(static_cast<double>(i) / static_cast<double>(ops.size()));
      for (const OpBench& r : bench_op(*ops[i], threads, flags.ms_each, flags.seed)) {
        rows.push_back({{"op", r.op},
                        {"case", r.case_name},
                        {"kernel", r.kernel},
                        {"shape", r.shape},
                        {"p50_us", r.p50_us},
                        {"flops", r.flops},
                        {"bytes", r.bytes}});
        table.add({r.op, r.case_name, r.kernel, r.shape, fmt::format("{:.2f}", r.p50_us),
                   fmt::format("{:.2f}", r.flops / r.p50_us * 1e-3), fmt::format("{:.2f}", r.bytes / r.p50_us * 1e-3)});
      }
    }
  }
  if (program.json) print_json({{"threads", threads}, {"results", rows}});
  else print(table.str());
  return kDone;
}

}  // namespace

void add_ops(Program& program, Command app) {
  const auto flags = std::make_shared<OpsFlags>();
  const Command group = app.add_group("ops", "the table of operators: list it, check it, time it");
  group.footer(
      "Examples:\n  sparkpilot ops list Conv\n  sparkpilot ops check\n  sparkpilot ops bench Conv --threads 1");
  const auto add = [&](const std::string& name, const std::string& doc, const std::string& examples,
                       int (*action)(const Program&, const OpsFlags&)) {
    const Command command =
        add_command(program, group, name, doc, examples, [&program, flags, action] { return action(program, *flags); });
    add_list(command, "names", flags->names, "NAME", "ops, by their names in ops list; default: all");
    add_report_flags(program, command);
    return command;
  };
  const Command lister =
      add("list", "print the table", "  sparkpilot ops list\n  sparkpilot ops list Conv --json", list_ops);
  lister.add_flag("--markdown", flags->markdown, "print it in the form of docs/ops.md, without --json");
  const Command checker =
      add("check", "compare every kernel with its plain reference on this machine",
          "  sparkpilot ops check\n  sparkpilot ops check Conv Gemm\n  sparkpilot ops check --device cuda\n"
          "  sparkpilot ops check --gradients Conv",
          check_ops);
  checker.add_flag("--gradients", flags->gradients,
                   "instead compare the gradients with central differences of the references, in f64");
  add_number(checker, "--seed", flags->seed, "seed of the random inputs");
  checker.add_option("--device", flags->device, "cpu, or cuda or cuda:N: the CUDA kernels on that GPU")
      .type_name("NAME");
  const Command timer =
      add("bench", "time every kernel on the op's own cases", "  sparkpilot ops bench Conv --threads 2", bench_ops);
  add_number(timer, "--seed", flags->seed, "seed of the random inputs");
  add_setting(program, timer, "threads", "a number; 0: every processor, auto: one");
  add_number(timer, "--ms", flags->ms_each, "milliseconds for each kernel and case", "MS");
}

}  // namespace sparkpilot::cli
