#include "cli/compare_drives.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "compare/page.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMoments = 10;

Json json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json drive_json(const compare::Drive& drive, const compare::DrivingTerms& of, const compare::AgainstDrive& errors) {
  Json terms = Json::array(), decisions = Json::array(), against = Json::array();
  for (const compare::Term& term : of.terms) {
    terms.push_back({{"name", term.name},
                     {"unit", term.unit},
                     {"frames", term.frames},
                     {"only_in_first", term.only_reference},
                     {"mean", json(term.mean)},
                     {"p99", json(term.p99)},
                     {"max", json(term.max)},
                     {"worst_frame", term.frames > 0 ? Json(term.worst_frame) : Json()}});
  }
  for (const compare::Decision& d : of.decisions) {
    decisions.push_back(
        {{"name", d.name}, {"frames", d.frames}, {"flips", d.flips.size()}, {"flipped_frames", d.flips}});
  }
  for (const drive::PlanErrorSummary& s : errors) {
    against.push_back({{"horizon_s", s.horizon}, {"frames", s.count}, {"distance_mean_m", json(s.distance_mean)}});
  }
  return {{"name", drive.name},
          {"route", drive.route.empty() ? Json() : Json(drive.route)},
          {"models", drive.models.size()},
          {"frames", of.frames},
          {"only_here", of.only_ours},
          {"only_in_first", of.only_reference},
          {"terms", std::move(terms)},
          {"decisions", std::move(decisions)},
          {"plan_against_drive", std::move(against)}};
}

// The horizons at which a drive's plans are too far from the first one's, one line each.
std::vector<std::string> beyond(const std::vector<compare::ComparedDrive>& all, std::optional<double> max_plan_error) {
  std::vector<std::string> lines;
  if (!max_plan_error) return lines;
  for (const compare::ComparedDrive& one : all) {
    if (one.terms.frames == 0) {
      lines.push_back(fmt::format("{}: no frame is in both", one.drive->name));
    } else if (one.terms.only_reference > 0) {
      lines.push_back(
          fmt::format("{}: {} only in the first drive", one.drive->name, count_of(one.terms.only_reference, "frame")));
    }
    for (const compare::Term& term : one.terms.terms) {
      if (!term.name.starts_with("plan at")) continue;
      const std::string what = fmt::format("{}, {}", one.drive->name, term.name);
      if (term.only_reference > 0) {
        lines.push_back(fmt::format("{}: none in {}", what, count_of(term.only_reference, "frame")));
      } else if (term.frames == 0) {
        lines.push_back(what + ": nothing to compare it with");
      }
      if (!term.p99 || *term.p99 <= *max_plan_error) continue;
      lines.push_back(fmt::format("{}: 99th percentile {:.3g} m, allowed {:.3g}", what, *term.p99, *max_plan_error));
    }
  }
  return lines;
}

// "log" of "dongle|log": a folder of results does not know the dongle.
std::string log_of(const std::string& route) { return route.substr(route.rfind('|') + 1); }

}  // namespace

bool is_drive(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return fs::is_directory(path) || name.starts_with("rlog") || name.starts_with("qlog") || name.ends_with(".zst") ||
         name.ends_with(".bz2");
}

std::string text_of(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return {};
  Table table(rows[0]);
  for (size_t i = 1; i < rows.size(); ++i) table.add(rows[i]);
  return table.str();
}

bool same_route(const std::string& a, const std::string& b) { return a.empty() || b.empty() || log_of(a) == log_of(b); }

int compare_drives(const Program& program, const std::vector<std::string>& paths, const DriveLimits& limits,
                   const DriveOutput& out) {
  if (paths.size() < 2) fail("nothing to compare {} with: give a second drive", paths[0]);
  const auto tell = [&](const std::string& text) {
    if (!program.quiet) note(text);
  };
  std::vector<compare::Drive> drives;
  for (const std::string& path : paths) drives.push_back(compare::read_drive(path, tell));
  return report_drives(program, drives, limits, out, Json::object());
}

void add_tolerance_flags(Command command, FieldFlags& flags) {
  command.add_option("--tolerances", flags.tolerances, "allowed differences by field (docs/model_compare.md)")
      .type_name("FILE.json");
  add_number(command, "--tolerance-scale", flags.scale, "multiply all tolerances by X", "X");
}

std::optional<drive::Tolerances> tolerances_of(const FieldFlags& flags) {
  if (!(flags.scale >= 0)) fail("--tolerance-scale {}: expected 0 or more", flags.scale);
  if (!flags.fields) {
    if (flags.tolerances.empty() && flags.scale == 1) return {};
    fail("--tolerances and --tolerance-scale are for the comparison of fields, which is not asked for");
  }
  drive::Tolerances tolerances;
  if (!flags.tolerances.empty()) tolerances = drive::Tolerances::load(flags.tolerances);
  tolerances.scale(flags.scale);
  return tolerances;
}

compare::ComparisonPage compare_read(const std::vector<compare::Drive>& drives, const DriveLimits& limits) {
  compare::ComparisonPage page;
  const compare::Drive& first = drives[0];
  page.first = &first;
  page.version = SPARKPILOT_VERSION;
  for (size_t i = 1; i < drives.size(); ++i) {
    const compare::Drive& drive = drives[i];
    if (!same_route(first.route, drive.route)) {
      fail("{} is of route {}, {} of {}", first.name, first.route, drive.name, drive.route);
    }
    compare::ComparedDrive& one = page.others.emplace_back();
    one.drive = &drive;
    one.terms = compare::driving_terms(drive.models, first.models);
    if (!limits.fields) continue;
    one.fields = drive::compare_models(drive.models, first.models, *limits.fields);
    drive::compare_drivers(drive.drivers, first.drivers, *limits.fields, *one.fields);
  }
  page.beyond = beyond(page.others, limits.max_plan_error);
  for (const compare::ComparedDrive& one : page.others) {
    if (one.fields && !one.fields->ok()) {
      page.beyond.push_back(fmt::format("{}: {}", one.drive->name, drive::verdict(*one.fields)));
    }
  }
  return page;
}

Json to_json(const compare::ComparisonPage& page) {
  const std::vector<compare::AgainstDrive> errors = compare::against_drive(page.drives());
  Json document{{"drives", Json::array({drive_json(*page.first, {}, errors[0])})}};
  for (size_t i = 0; i < page.others.size(); ++i) {
    const compare::ComparedDrive& one = page.others[i];
    Json& row = document["drives"].emplace_back(drive_json(*one.drive, one.terms, errors[i + 1]));
    if (one.fields) row["fields"] = drive::to_json(*one.fields);
  }
  document["beyond_limits"] = page.beyond;
  return document;
}

void print_comparison(const compare::ComparisonPage& page) {
  for (const compare::ComparedDrive& one : page.others) {
    print(fmt::format("{} against {}: {} in both, {} only here, {} only there\n\n", one.drive->name, page.first->name,
                      count_of(one.terms.frames, "frame"), one.terms.only_ours, one.terms.only_reference));
    print(text_of(compare::terms_table(one.terms)) + "\n" + text_of(compare::decisions_table(one.terms)) + "\n");
    if (!one.fields) continue;
    print(drive::verdict(*one.fields) + "\n");
    drive::ComparisonTable fields = drive::table_of(*one.fields);
    Table table(std::move(fields.headings));
    for (auto& row : fields.rows) table.add(std::move(row));
    if (!fields.rows.empty()) print(table.str() + "\n");
  }
  print(text_of(compare::against_drive_table(page.drives())));
}

// Draws the worst moments and, if asked for, the film; writes the page.
void write_page(const Program& program, compare::ComparisonPage& page, const DriveOutput& out) {
  make_folders(out.folder);
  for (compare::ComparedDrive& one : page.others) {
    one.worst = compare::worst_moments(one.terms, kMoments);
    compare::FilmOptions options;
    options.stop = out.stop;
    for (const compare::FrameTerms& frame : one.worst) options.pictures.insert(frame.frame_id);
    if (out.video) {
      one.film_file =
          page.others.size() == 1 ? "compare.mp4" : fmt::format("compare_{}.mp4", &one - page.others.data() + 1);
      options.film = out.folder / one.film_file;
    }
    Progress bar(!program.json && !program.quiet, "drawing");
    options.progress = [&](double done) { bar.at(done); };
    one.film = compare::make_film(*one.drive, *page.first, options);
    if (!one.film.written) one.film_file.clear();
  }
  AtomicFile file(out.folder / kComparisonPage);
  file.write(compare::to_html(page));
  file.commit();
}

int report_drives(const Program& program, const std::vector<compare::Drive>& drives, const DriveLimits& limits,
                  const DriveOutput& out, Json more) {
  compare::ComparisonPage page = compare_read(drives, limits);
  page.speed = out.speed;
  page.notes = out.notes;
  if (program.json) {
    more.update(to_json(page));
    print_json(more);
  } else {
    print_comparison(page);
  }
  if (!out.folder.empty()) write_page(program, page, out);
  if (!out.folder.empty() && !program.json) print(fmt::format("page: {}\n", (out.folder / kComparisonPage).string()));
  for (const std::string& line : page.beyond) note(line);
  if (out.stop != nullptr && out.stop->load()) return kInterrupted;
  return page.beyond.empty() ? kDone : kCheckFailed;
}

}  // namespace sparkpilot::cli
