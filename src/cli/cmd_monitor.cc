// sparkpilot monitor: the machine at work, on the terminal, as text, JSON or CSV.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/append_file.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/monitor_view.h"
#include "cli/terminal.h"
#include "hw/record.h"
#include "monitor/metrics.h"
#include "monitor/output.h"
#include "monitor/sampler.h"

namespace sparkpilot::cli {
namespace {

using monitor::Sample;
using monitor::Sampler;
using monitor::Summary;

struct MonitorFlags {
  bool once = false;
  bool serves = false;
  std::string csv, duration, interval = "1s", from, port;
};

// "500ms", "10s", "2m", "1h", "10" in seconds.
double seconds_flag(const std::string& flag, const std::string& text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double factor = unit == "ms"                  ? 1e-3
                        : unit == "s" || unit.empty() ? 1
                        : unit == "m"                 ? 60
                        : unit == "h"                 ? 3600
                                                      : 0;
  if (error != std::errc() || factor == 0) fail("{}: expected a time such as 500ms, 10s or 2m, got \"{}\"", flag, text);
  if (!(value * factor >= least && value * factor <= most)) {
    fail("{}: expected {} to {} seconds, got \"{}\"", flag, least, most, text);
  }
  return value * factor;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = ms / 1000;
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, ms % 1000);
}

void sleep_until(int64_t until_ns, const std::atomic<bool>& stop) {
  constexpr int64_t kPiece = 100'000'000;
  for (int64_t left = until_ns - now_ns(); left > 0 && !stop; left = until_ns - now_ns()) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left, kPiece)));
  }
}

int port_flag(const std::string& text) {
  constexpr int kUsual = 9790, kMax = 65535;
  if (text.empty()) return kUsual;
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 0 || port > kMax) {
    fail("--serve: expected a port from 0 to {}, got \"{}\"", kMax, text);
  }
  return port;
}

int once(const Program& program, const MonitorFlags& flags, Source& source) {
  Sampler sampler(source);
  Sample sample = sampler.next();
  if (flags.from.empty()) {  // rates need two readings; a recorded machine does not change
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    sample = sampler.next();
  }
  constexpr size_t kProcesses = 10;
  if (program.json) print_json(to_json(sample, utc_now()));
  else print(to_text(sample, kProcesses));
  return kDone;
}

void print_summary(const Summary& summary) {
  Table table({"", "mean", "p50", "p99", "max"});
  for (const Summary::Row& row : summary.rows()) {
    const auto cell = [&](double value) { return human(row.quantity.unit, value); };
    const Statistics& s = row.statistics;
    table.add({row.quantity.column(), cell(s.mean), cell(s.p50), cell(s.p99), cell(s.max)});
  }
  print(table.str());
  for (const monitor::EnergyMeter::Energy& of : summary.energy()) {
    print(fmt::format("GPU {} used {}{}\n", of.gpu, human(monitor::Unit::joules, of.joules),
                      !of.joules   ? ""
                      : of.counted ? " by the driver's counter"
                                   : fmt::format(" (power over {:.0f} s)", of.seconds)));
  }
  print(fmt::format("{} readings in {:.1f} s\n", summary.samples(), summary.seconds()));
}

// Prints readings until the time is over or the user stops it.
int record(const Program& program, const MonitorFlags& flags, Source& source, double interval) {
  const double most = 366 * 24 * 3600.0;
  const double duration = flags.duration.empty() ? most : seconds_flag("--duration", flags.duration, interval, most);
  const auto interval_ns = static_cast<int64_t>(interval * 1e9);
  const StopOnInterrupt stop(false);
  std::optional<monitor::MetricsServer> server;
  if (flags.serves) {
    server.emplace(port_flag(flags.port));
    if (!program.quiet) note(fmt::format("serving http://127.0.0.1:{}/metrics; Ctrl-C ends it", server->port()));
  }
  Sampler sampler(source);
  const int64_t start = now_ns();
  const Sample first = sampler.next();  // the base of the first rates
  const monitor::Csv columns(first);
  if (server) server->publish(monitor::metrics_page(first));
  std::optional<AppendFile> file;
  if (!flags.csv.empty()) {
    file.emplace(flags.csv, columns.heading());
    if (!program.quiet && !program.json) {
      note(fmt::format("writing {} every {}{}", flags.csv, flags.interval,
                       flags.duration.empty() ? "; Ctrl-C ends it" : ""));
    }
  }
  std::optional<Progress> bar;
  bar.emplace(!program.quiet && !program.json && !flags.duration.empty(), "monitoring");
  Summary summary(first);
  int64_t at = start;
  do {
    // Skips readings that were missed because the machine slept or a driver hung.
    at += std::max<int64_t>(1, (now_ns() - at) / interval_ns) * interval_ns;
    if (server) server->serve(at, stop.requested());
    else sleep_until(at, stop.requested());
    if (stop.requested()) break;
    const Sample sample = sampler.next();
    const std::string time = utc_now();
    summary.add(sample);
    if (server) server->publish(monitor::metrics_page(sample));
    if (file) file->append(columns.row(sample, time));
    if (program.json) {
      print_data(json_text(to_json(sample, time)) + "\n");
      flush_output();
    }
    bar->at(sample.seconds / duration);
  } while (static_cast<double>(at - start) * 1e-9 + interval / 2 < duration);
  bar.reset();
  if (program.json) print_data(json_text(nlohmann::ordered_json{{"summary", to_json(summary)}}) + "\n");
  else if (file || !flags.duration.empty()) print_summary(summary);
  return kDone;
}

int run_monitor(const Program& program, const MonitorFlags& flags) {
  if (flags.once && !(flags.csv.empty() && flags.duration.empty() && !flags.serves)) {
    fail("--once is one reading: it excludes --csv, --duration and --serve");
  }
  const double interval = seconds_flag("--interval", flags.interval, 0.1, 3600);
  constexpr int64_t kLargestRecording = 64 << 20;
  const std::unique_ptr<Source> source =
      flags.from.empty() ? system_source() : recorded_source(read_file(flags.from, kLargestRecording), flags.from);
  if (flags.once) return once(program, flags, *source);
  if (program.json || flags.serves || !flags.csv.empty() || !flags.duration.empty())
    return record(program, flags, *source, interval);
  show_view(*source, interval, program.settings["color"].value != "never");
  return kDone;
}

}  // namespace

void add_monitor(Program& program, Command app) {
  const auto flags = std::make_shared<MonitorFlags>();
  const Command command =
      add_command(program, app, "monitor", "show the load of GPU, CPU, memory, disks, network and processes",
                  "  sparkpilot monitor\n"
                  "  sparkpilot monitor --once\n"
                  "  sparkpilot monitor --duration 60s --csv load.csv\n"
                  "  sparkpilot monitor --serve --interval 15s\n"
                  "  sparkpilot monitor --json --interval 500ms | jq .gpus[0].power_w\n"
                  "Values that the machine does not report are n/a (null, an empty cell), never 0.",
                  [&program, flags] { return run_monitor(program, *flags); });
  command.add_flag("--once", flags->once, "print one reading");
  command.add_flag("--json", program.json, "one JSON document per line, the summary last; with --once one document");
  command.add_option("--csv", flags->csv, "write a row for each reading; append to a file with the same columns")
      .type_name("FILE");
  command.add_option("--duration", flags->duration, "stop after this time: 10s, 2m, 1h; default: at Ctrl-C")
      .type_name("TIME");
  command.add_option("--interval", flags->interval, "time between readings, from 100ms on").type_name("TIME");
  command
      .add_option(
          "--serve",
          [flags](const std::string& port) {
            flags->serves = true;
            flags->port = port;
          },
          "answer GET /metrics for Prometheus on 127.0.0.1, port 9790 or another (0: any)")
      .values(0, 1)
      .type_name("[PORT]");
  command.add_option("--from", flags->from, "a machine that `sparkpilot doctor --record` wrote").type_name("FILE");
  command.add_flag("-q,--quiet", program.quiet, "no progress and no notes on stderr");
}

}  // namespace sparkpilot::cli
