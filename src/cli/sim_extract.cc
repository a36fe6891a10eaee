#include "cli/sim_extract.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/route_signals.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "sim/extract.h"

namespace sparkpilot::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

struct ExtractFlags {
  std::string route, out;
  std::vector<std::string> kinds;
  double seconds = 20;
};

// A folder that is written aside and renamed by commit(); without it nothing remains. Of an empty folder that is there
// (also as "." or behind a link) the files are written aside in it, and moved.
class FolderAside {
 public:
  explicit FolderAside(fs::path target) : target_(std::move(target)) {
    if (!target_.has_filename()) target_ = target_.parent_path();
    expect_new_folder(target_);
    std::error_code error;
    there_ = fs::exists(target_, error);
    if (!there_ && fs::is_symlink(target_, error)) fail("{}: is a link to what is not there", target_.string());
    aside_ = there_ ? target_ / "" : target_;
    aside_ += fmt::format(".part{}", getpid());
    make_folders(aside_);
  }
  ~FolderAside() {
    std::error_code error;
    if (!done_) fs::remove_all(aside_, error);
  }
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;

  const fs::path& path() const { return aside_; }
  void commit() {
    const auto rename = [](const fs::path& from, const fs::path& to) {
      std::error_code error;
      fs::rename(from, to, error);
      if (error) fail("{}: {}", to.string(), error.message());
    };
    if (there_) {
      std::vector<fs::path> files;
      std::error_code error;
      for (fs::directory_iterator at(aside_, error), end; !error && at != end; at.increment(error)) {
        files.push_back(at->path());
      }
      if (error) fail("{}: {}", aside_.string(), error.message());
      for (const fs::path& file : files) rename(file, target_ / file.filename());
      fs::remove(aside_, error);
    } else {
      rename(aside_, target_);
    }
    done_ = true;
  }

 private:
  fs::path target_, aside_;
  bool there_ = false, done_ = false;
};

double greatest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

Json lead_json(const std::optional<sim::ExtractedCourse::LeadAt>& lead) {
  return lead ? Json{{"gap_m", lead->gap}, {"speed_m_per_s", lead->speed}} : Json();
}

Json course_json(const sim::ExtractedCourse& course) {
  const auto [slowest, fastest] = std::ranges::minmax(course.table.speed);
  return {{"file", sim::course_file_name(course)},
          {"kind", course.kind},
          {"begin_s", course.begin},
          {"seconds", course.seconds},
          {"speed_low_m_per_s", slowest},
          {"speed_high_m_per_s", fastest},
          {"curvature_max_per_m", greatest(course.table.curvature)},
          {"lead_first", lead_json(course.lead_first)},
          {"lead_last", lead_json(course.lead_last)},
          {"leads", course.leads},
          {"lead_gap_error_m", course.lead_gap_error ? Json(*course.lead_gap_error) : Json()}};
}

Json json_of(const RouteSignals& route, const sim::Extraction& found) {
  Json courses = Json::array();
  for (const sim::ExtractedCourse& course : found.courses) courses.push_back(course_json(course));
  return {{"format", "sparkpilot courses 1"},
          {"route", route.name},
          {"duration_s", found.seconds},
          {"yaw_rate_source", route.signals.yaw_source.empty() ? Json() : Json(route.signals.yaw_source)},
          {"lead_source", route.signals.lead_source.empty() ? Json() : Json(route.signals.lead_source)},
          {"left_out",
           {{"bad_data_s", found.bad_seconds},
            {"overridden_s", found.overridden_seconds},
            {"standstill_s", found.standstill_seconds},
            {"too_short", found.too_short}}},
          {"courses", std::move(courses)}};
}

void write_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void print_found(const RouteSignals& route, const sim::Extraction& found, const ExtractFlags& flags) {
  print(fmt::format("{}: {} of {:.1f} s\n", painted(route.name, Paint::bold),
                    count_of(std::ssize(found.courses), "course"), found.seconds));
  print(fmt::format(
      "left out: {:.1f} s without valid data, {:.1f} s overridden by the driver, {:.1f} s at a "
      "standstill; {} shorter than 4 s\n\n",
      found.bad_seconds, found.overridden_seconds, found.standstill_seconds, count_of(found.too_short, "part")));
  if (found.courses.empty()) return;
  Table table({"course", "kind", "from s", "seconds", "speed m/s", "curvature max 1/m", "cars ahead"});
  for (const sim::ExtractedCourse& course : found.courses) {
    const auto [slowest, fastest] = std::ranges::minmax(course.table.speed);
    table.add({sim::course_file_name(course), course.kind, fixed(course.begin, 1), fixed(course.seconds, 1),
               fmt::format("{:.1f} to {:.1f}", slowest, fastest),
               fmt::format("{:.2g}", greatest(course.table.curvature)), fmt::format("{}", course.leads)});
  }
  print(table.str());
  print(fmt::format("\nsparkpilot sim run --file {}\n", shell_word(flags.out)));
}

int extract(const Program& program, const ExtractFlags& flags) {
  expect_one_process();
  sim::ExtractOptions options;
  if (!flags.kinds.empty()) options.kinds = split_names(flags.kinds);
  options.piece_seconds = flags.seconds;
  sim::extract_courses({}, options);  // refuses options before anything is read
  const std::vector<std::string> given = given_flags(*program.at);
  if (std::ranges::count(given, "--seconds") > 0 && std::ranges::count(options.kinds, "piece") == 0) {
    fail("--seconds has no effect without --kind piece");
  }
  const StopOnInterrupt stop;
  FolderAside folder(flags.out);
  const RouteSignals route = read_route_signals(program, flags.route, &stop.requested());
  if (stop.requested()) return kInterrupted;
  const sim::Extraction found = sim::extract_courses(route.signals, options);
  const Json json = json_of(route, found);
  for (const sim::ExtractedCourse& course : found.courses) {
    if (stop.requested()) return kInterrupted;
    write_file(folder.path() / sim::course_file_name(course), sim::course_csv(course.table));
  }
  write_file(folder.path() / "index.json", json_text(json, 2) + "\n");
  folder.commit();
  if (program.json) print_json(json);
  else print_found(route, found, flags);
  return kDone;
}

}  // namespace

void add_sim_extract(Program& program, Command group) {
  const auto flags = std::make_shared<ExtractFlags>();
  const Command command =
      add_command(program, group, "extract", "stretches of a recorded drive as courses for sim run --file",
                  "  sparkpilot sim extract /data/2023-07-27--13-01-19 --out courses\n"
                  "  sparkpilot sim extract /data/2023-07-27--13-01-19 --kind piece --seconds 30 --out courses\n"
                  "  sparkpilot sim run --file courses --variants 100",
                  [&program, flags] { return extract(program, *flags); });
  add_route_flags(program, command, flags->route);
  add_list(command, "--kind", flags->kinds, "KIND[,KIND...]",
           "curve, lane_change, stop, lead, or piece: one length after the other (all but pieces)");
  add_number(command, "--seconds", flags->seconds, "of a piece");
  command.add_option("-o,--out", flags->out, "folder of the courses and index.json; a new or an empty one")
      .type_name("DIR")
      .required();
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
