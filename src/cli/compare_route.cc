#include "cli/compare_route.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/folder_lock.h"
#include "base/scratch_folder.h"
#include "bench/report.h"
#include "cli/driving_models.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "cli/variants.h"
#include "compare/route.h"
#include "route/log/recording.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<compare::RouteVariant> variants_of(const Program& program, const CompareRouteFlags& flags) {
  std::vector<std::string> folders = flags.models;
  if (folders.empty()) folders = {program.settings["models"].value};
  if (folders[0].empty()) fail("--models DIR is expected with --route: the folder with openpilot's models");
  const std::vector<std::string> devices = devices_of(program, flags.devices),
                                 precisions = precisions_of(program, flags.precisions, devices),
                                 threads = thread_counts_of(program, flags.threads), names = file_names(folders);
  std::vector<compare::RouteVariant> variants;
  Calibrations calibrations(flags.calibrations);
  for (size_t f = 0; f < folders.size(); ++f) {
    const drive::ModelFiles models = drive::find_models(folders[f]);
    if (!models.note.empty() && !program.quiet) note(models.note);
    drive::ModelFiles calibrated = models;
    calibrations.give(calibrated);
    for (const std::string& text : precisions) {
      for (const std::string& count : threads) {
        for (const std::string& device : devices) {
          const VariantPrecision precision = variant_precision(program, text, device);
          compare::RouteVariant variant{.name = {}, .models = models, .session = session_options(program, flags.run)};
          set_device(program, variant.session, device);
          variant.session.passes.precision = precision.precision;
          if (takes_calibration(flags.run, precision.precision)) variant.models = calibrated;
          variant.session.threads = threads_of(count);
          variant.int8 = precision.int8;
          variant.name = variant_name({{folders.size() > 1, names[f]},
                                       {precisions.size() > 1, text},
                                       {threads.size() > 1, threads_name(count)},
                                       {devices.size() > 1, device}});
          variants.push_back(std::move(variant));
        }
      }
    }
  }
  if (variants.size() < 2) {
    fail(
        "nothing to compare {} with: give a second --models, or several precisions such as --precision fp32,fp16, "
        "numbers of threads such as --threads 1,2 or devices such as --device cpu,cuda",
        folders[0]);
  }
  std::vector<Precision> used;
  for (const compare::RouteVariant& variant : variants) used.push_back(variant.session.passes.precision);
  expect_calibration_used(flags.run, !flags.calibrations.empty(), used);
  calibrations.expect_used();
  return variants;
}

// The folders of all variants differ.
void check_names(const std::vector<compare::RouteVariant>& variants, const fs::path& out) {
  for (size_t i = 0; i < variants.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (compare::folder_of(out, variants[i].name) != compare::folder_of(out, variants[j].name)) continue;
      fail("{} and {} would be written into one folder", variants[j].name, variants[i].name);
    }
  }
}

Json variant_json(const compare::RouteResult& v, bool timed) {
  Json out{{"name", v.name}, {"contract", v.contract}, {"threads", v.threads}, {"peak_memory_bytes", nullptr}};
  if (v.peak_memory_bytes) out["peak_memory_bytes"] = *v.peak_memory_bytes;
  if (!timed) return out;
  out["frames"] = v.ms.count;
  out["mean_ms"] = v.ms.mean;
  out["p50_ms"] = v.ms.p50;
  out["p99_ms"] = v.ms.p99;
  out["time_ratio"] = v.ratio.rounds > 0 ? sparkpilot::to_json(v.ratio) : Json();
  return out;
}

std::vector<std::vector<std::string>> speed_rows(const compare::RouteComparison& comparison) {
  std::vector<std::vector<std::string>> rows{
      {"model", "threads", "frames", "mean ms", "p50", "p99", "frames/s", "time", "90 %", "memory"}};
  for (const compare::RouteResult& v : comparison.variants) {
    const bool first = &v == comparison.variants.data(), in_turns = !first && v.ratio.rounds > 0;
    rows.push_back({v.name, std::to_string(v.threads), std::to_string(v.ms.count), human_ms(v.ms.mean),
                    human_ms(v.ms.p50), human_ms(v.ms.p99), fmt::format("{:.1f}", v.ms.mean > 0 ? 1e3 / v.ms.mean : 0),
                    in_turns ? fmt::format("{:.3f}", v.ratio.median) : (first ? "1" : "-"),
                    in_turns ? fmt::format("{:.3f} to {:.3f}", v.ratio.low, v.ratio.high) : "-",
                    v.peak_memory_bytes ? human_bytes(*v.peak_memory_bytes) : "-"});
  }
  return rows;
}

compare::RouteComparison drive_all(const Program& program, const CompareRouteFlags& flags, const drive::Route& route,
                                   const std::atomic<bool>& stop, const fs::path& out) {
  const std::vector<compare::RouteVariant> variants = variants_of(program, flags);
  check_names(variants, out);
  compare::RouteOptions options;
  options.out = out;
  options.drive.wide = !flags.no_wide;
  options.drive.qcamera = flags.qcamera;
  options.drive.limit = flags.limit;
  options.drive.stop = &stop;
  if (!program.quiet) options.drive.note = [](const std::string& text) { note(text); };
  Progress bar(!program.json && !program.quiet, route.name);
  options.progress = [&](std::string_view what, double done) {
    bar.what(std::string(what));
    bar.at(done);
  };
  return compare::compare_on_route(route, variants, options);
}

}  // namespace

int compare_route(const Program& program, const CompareRouteFlags& flags, const DriveLimits& limits) {
  expect_at_least("--limit", flags.limit, 0);
  const StopOnInterrupt stop;
  const drive::Route route = drive::find_route(flags.route, {.data = program.settings["data"].value});
  std::optional<ScratchFolder> scratch;
  if (flags.out.empty()) scratch.emplace();
  const fs::path out = scratch ? scratch->path() : fs::path(flags.out);
  drive::refuse_recording(out, drive::Writer::drive);
  const FolderLock lock(out);
  const compare::RouteComparison comparison = drive_all(program, flags, route, stop.requested(), out);
  if (comparison.stopped) return kInterrupted;
  const bool timed = !program.emulate;
  Json document{{"route", route.name}, {"variants", Json::array()}, {"notes", comparison.notes}};
  std::vector<compare::Drive> drives;
  for (const compare::RouteResult& v : comparison.variants) {
    document["variants"].push_back(variant_json(v, timed));
    drives.push_back(compare::read_drive(v.folder, nullptr, {.run = v.run, .route = &route}));
    drives.back().name = v.name;
  }
  if (timed) document["seconds"] = comparison.seconds;
  if (!program.quiet) {
    for (const std::string& text : comparison.notes) note(text);
    if (!timed) note("--emulate: for accuracy only, no times are shown");
  }
  DriveOutput output{.folder = flags.out, .video = flags.video, .stop = &stop.requested()};
  if (timed) output.speed = speed_rows(comparison);
  output.notes = comparison.notes;
  if (timed && !program.json) print(text_of(output.speed) + "\n");
  return report_drives(program, drives, limits, output, std::move(document));
}

}  // namespace sparkpilot::cli
