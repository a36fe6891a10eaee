// sparkpilot doctor: what the machine is, what is wrong with it, and how to fix it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "doctor/load.h"
#include "doctor/report.h"
#include "hw/record.h"
#include "monitor/sampler.h"

namespace sparkpilot::cli {
namespace {

struct DoctorFlags {
  std::string root, from, record;
  bool strict = false, report = false, verify = false, list = false, markdown = false;
  double load_seconds = 0, wait_seconds = 0.5;
};

std::unique_ptr<Source> source_of(const DoctorFlags& flags) {
  constexpr int64_t kMaxRecord = 32 << 20;
  if (!flags.from.empty()) return recorded_source(read_file(flags.from, kMaxRecord), flags.from);
  return system_source({.root = flags.root.empty() ? "/" : flags.root, .driver_wait_seconds = flags.wait_seconds});
}

int list_checks(const Program& program, const DoctorFlags& flags) {
  if (flags.markdown) {
    print(checks_markdown());
    return kDone;
  }
  Table table({"check", "impact", "what should be"});
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CheckInfo& check : checks()) {
    table.add({std::string(check.id), std::string(impact_name(check.impact)), std::string(check.title)});
    rows.push_back({{"id", check.id},
                    {"impact", impact_name(check.impact)},
                    {"title", check.title},
                    {"why", check.why},
                    {"fix", check.fix}});
  }
  if (program.json) print_json({{"checks", rows}});
  else print(table.str());
  return kDone;
}

std::string emphasised(std::string_view text, std::string_view style) {
  if (style == "fatal" || style == "slow") return painted(text, Paint::bad);
  if (style == "good") return painted(text, Paint::good);
  if (style == "heading") return painted(text, Paint::bold);
  return painted(text, Paint::dim);
}

bool failed(const Diagnosis& diagnosis, bool strict) {
  const auto counts = [strict](const Finding& finding) { return strict || finding.impact == Impact::fatal; };
  return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), counts);
}

int examine_machine(const Program& program, const DoctorFlags& flags) {
  if (program.json && (flags.markdown || flags.report))
    fail("--json and {}: expected one of them", flags.markdown ? "--markdown" : "--report");
  if (flags.list || flags.markdown) return list_checks(program, flags);
  const bool here = flags.root.empty() && flags.from.empty();
  const bool work = flags.verify || flags.load_seconds > 0;
  if (work && !here) fail("--verify and --load compute on this machine, and --root and --from name another one");
  if (!flags.record.empty() && !flags.from.empty()) refuse_to_replace(flags.record, flags.from);
  const std::unique_ptr<Source> source = source_of(flags);
  Recorder recorder(*source);

  Load load;
  // Folders from this machine's settings mean nothing for another machine.
  const auto folder = [&](std::string_view setting) -> std::string {
    const SettingValue& value = program.settings[setting];
    if (value.value.empty() || (!here && value.origin != Origin::flag)) return "";
    if (!here) {
      const std::string path = (std::filesystem::path("/") / value.value).lexically_normal().string();
      if (flags.from.empty() && source->access(path) == Access::absent)
        fail("--{} {}: no such folder in {}", setting, value.value, flags.root);
      return path;
    }
    if (value.origin == Origin::flag && !std::filesystem::is_directory(value.value)) {
      fail("--{} {}: {}", setting, value.value,
           std::filesystem::exists(value.value) ? "not a folder" : "no such folder");
    }
    return std::filesystem::absolute(value.value).lexically_normal().string();
  };
  DoctorOptions options{.models = folder("models"), .data = folder("data"), .here = here};
  if (work) {
    if (flags.load_seconds > 0 && !program.quiet)
      note(fmt::format("keeping every GPU there is busy for {} s, and reading a disk", flags.load_seconds));
    load = sample_under_load(*source, flags.load_seconds);
    options.under_load = load.samples;
    options.deep = true;
    const std::filesystem::path home = source->variable("HOME").value_or("/");
    if (flags.load_seconds > 0)
      options.disk_bytes_per_second = measure_disk(options.data.empty() ? home : options.data);
  }
  const Diagnosis diagnosis = examine(recorder, options);
  if (!flags.record.empty()) {
    monitor::Sampler(recorder, {.processes = false})
        .next();  // for `monitor --from`; without the list of processes, which is private
    AtomicFile file(flags.record);
    file.write(recorder.json());
    file.commit();
    if (!program.quiet) note(fmt::format("wrote {}: look at it before you send it", flags.record));
  }

  if (program.json) {
    nlohmann::ordered_json document = report_json(diagnosis);
    if (work) document["verified"] = verification_json(load.verified);
    print_json(document);
  } else {
    const bool plain = flags.report;
    ReportOptions words{.all = program.verbose() || plain};
    if (!plain) words.paint = emphasised, words.columns = stdout_columns();
    std::string text = report_text(diagnosis, words);
    if (work) text += verification_text(load.verified);
    if (flags.load_seconds > 0 && outcome(load.verified) == Verified::nothing)
      text += "load       no GPU was kept busy\n";
    if (plain) text = redactor_of(*source)(fmt::format("sparkpilot {}\n{}", SPARKPILOT_VERSION, text));
    print(text);
  }
  // A load test that found no GPU to check must not count as passed.
  const bool verified = !work || outcome(load.verified) == Verified::right;
  return failed(diagnosis, flags.strict) || !verified ? kCheckFailed : kDone;
}

}  // namespace

void add_doctor(Program& program, Command app) {
  const auto flags = std::make_shared<DoctorFlags>();
  const Command command =
      add_command(program, app, "doctor", "report what this machine is, what is wrong with it, and how to fix it",
                  "  sparkpilot doctor\n"
                  "  sparkpilot doctor --verify --load 5     compute on each GPU, judge its clocks and heat\n"
                  "  sparkpilot doctor --report              a text for a bug report, without names and numbers\n"
                  "  sparkpilot doctor --record spark.json   what was found, to be examined elsewhere with --from\n\n"
                  "Exit code 4 if there is a fatal finding (having no GPU is not one), or if --verify or --load find a "
                  "faulty GPU,\nor no GPU.",
                  [&program, flags] { return examine_machine(program, *flags); });
  add_report_flags(program, command);
  add_setting(program, command, "verbose", "list every check");
  command.add_flag("--strict", flags->strict, "exit code 4 for any finding");
  command.add_flag("--report", flags->report, "a plain text to paste into a bug report: every check, names removed");
  command.add_flag("--verify", flags->verify, "run a small kernel on each GPU and compare it with the processor");
  command
      .add_option("--load", flags->load_seconds,
                  "verify, and keep each GPU busy for this time while its sensors are read")
      .type_name("SECONDS")
      .between(0.0, 600.0);
  add_setting(program, command, "models", "also check the models in this folder");
  add_setting(program, command, "data",
              "folder of routes whose free space and speed to check (default: the home folder)");
  command.add_option("--wait", flags->wait_seconds, "how long a call into the driver may take (default 0.5)")
      .type_name("SECONDS")
      .between(0.01, 600.0);
  const Option root =
      command.add_option("--root", flags->root, "examine another file tree, such as a mounted disk").type_name("DIR");
  command.add_option("--from", flags->from, "examine a recorded machine").type_name("FILE").excludes(root);
  command.add_option("--record", flags->record, "write what was found, without serial numbers, addresses and names")
      .type_name("FILE");
  command.add_flag("--list", flags->list, "list the checks");
  command.add_flag("--markdown", flags->markdown, "print them in the form of docs/doctor.md");
}

}  // namespace sparkpilot::cli
