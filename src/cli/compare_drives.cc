#include "cli/compare_drives.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/terminal.h"
#include "compare/driving.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kShownFlips = 3;

std::string number(const std::optional<double>& value) { return value ? fmt::format("{:.3g}", *value) : "-"; }
Json json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

struct Compared {
  const compare::Drive& drive;
  compare::DrivingTerms terms;  // of the first: none
};

Json to_json(const Compared& one) {
  Json terms = Json::array(), decisions = Json::array(), against = Json::array();
  for (const compare::Term& term : one.terms.terms) {
    terms.push_back({{"name", term.name},
                     {"unit", term.unit},
                     {"frames", term.frames},
                     {"only_in_first", term.only_reference},
                     {"mean", json(term.mean)},
                     {"p99", json(term.p99)},
                     {"max", json(term.max)},
                     {"worst_frame", term.frames > 0 ? Json(term.worst_frame) : Json()}});
  }
  for (const compare::Decision& d : one.terms.decisions) {
    decisions.push_back(
        {{"name", d.name}, {"frames", d.frames}, {"flips", d.flips.size()}, {"flipped_frames", d.flips}});
  }
  for (const drive::PlanErrorSummary& s : one.drive.against_drive) {
    against.push_back({{"horizon_s", s.horizon}, {"frames", s.count}, {"distance_mean_m", json(s.distance_mean)}});
  }
  return {{"name", one.drive.name},
          {"route", one.drive.route.empty() ? Json() : Json(one.drive.route)},
          {"models", one.drive.models.size()},
          {"frames", one.terms.frames},
          {"only_here", one.terms.only_ours},
          {"only_in_first", one.terms.only_reference},
          {"terms", std::move(terms)},
          {"decisions", std::move(decisions)},
          {"plan_against_drive", std::move(against)}};
}

void print_terms(const Compared& one, const std::string& first) {
  print(fmt::format("{} against {}: {} in both, {} only here, {} only there\n\n", one.drive.name, first,
                    count_of(one.terms.frames, "frame"), one.terms.only_ours, one.terms.only_reference));
  Table terms({"difference of", "unit", "frames", "mean", "99 %", "max", "worst frame", "only there"});
  for (const compare::Term& term : one.terms.terms) {
    terms.add({term.name, term.unit, std::to_string(term.frames), number(term.mean), number(term.p99), number(term.max),
               term.frames > 0 ? std::to_string(term.worst_frame) : "-", std::to_string(term.only_reference)});
  }
  print(terms.str() + "\n");
  Table decisions({"decision", "frames", "flips", "at frames"});
  for (const compare::Decision& d : one.terms.decisions) {
    std::string at;
    for (size_t i = 0; i < std::min(kShownFlips, d.flips.size()); ++i)
      at += (i ? ", " : "") + std::to_string(d.flips[i]);
    if (d.flips.size() > kShownFlips) at += ", ...";
    decisions.add({d.name, std::to_string(d.frames), std::to_string(d.flips.size()), at.empty() ? "-" : at});
  }
  print(decisions.str() + "\n");
}

void print_against_drive(const std::vector<Compared>& all) {
  std::vector<std::string> headings{"plan against the drive, m"};
  for (const drive::PlanErrorSummary& s : all[0].drive.against_drive)
    headings.push_back(fmt::format("{:.0f} s", s.horizon));
  Table table(headings);
  bool any = false;
  for (const Compared& one : all) {
    std::vector<std::string> row{one.drive.name};
    for (const drive::PlanErrorSummary& s : one.drive.against_drive) {
      any |= s.count > 0;
      row.push_back(number(s.distance_mean));
    }
    table.add(row);
  }
  if (any) print(table.str());
}

// The horizons at which a drive's plans are too far from the first one's, one line each.
std::vector<std::string> beyond(const std::vector<Compared>& all, double max_plan_error) {
  std::vector<std::string> lines;
  for (size_t i = 1; i < all.size() && max_plan_error > 0; ++i) {
    const Compared& one = all[i];
    if (one.terms.frames == 0) lines.push_back(fmt::format("{}: no frame is in both", one.drive.name));
    for (const compare::Term& term : one.terms.terms) {
      if (!term.name.starts_with("plan at")) continue;
      const std::string what = fmt::format("{}, {}", one.drive.name, term.name);
      if (term.only_reference > 0) {
        lines.push_back(fmt::format("{}: none in {}", what, count_of(term.only_reference, "frame")));
      } else if (term.frames == 0) {
        lines.push_back(what + ": nothing to compare it with");
      }
      if (!term.p99 || *term.p99 <= max_plan_error) continue;
      lines.push_back(fmt::format("{}: 99th percentile {:.3g} m, allowed {:.3g}", what, *term.p99, max_plan_error));
    }
  }
  return lines;
}

}  // namespace

bool is_drive(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return fs::is_directory(path) || name.starts_with("rlog") || name.starts_with("qlog") || name.ends_with(".zst") ||
         name.ends_with(".bz2");
}

int compare_drives(const Program& program, const std::vector<std::string>& paths, const DriveLimits& limits) {
  if (paths.size() < 2) fail("nothing to compare {} with: give a second drive", paths[0]);
  const auto tell = [&](const std::string& text) {
    if (!program.quiet) note(text);
  };
  std::vector<compare::Drive> drives;
  for (const std::string& path : paths) drives.push_back(compare::read_drive(path, tell));
  return report_drives(program, drives, limits, Json::object());
}

int report_drives(const Program& program, const std::vector<compare::Drive>& drives, const DriveLimits& limits,
                  Json document) {
  std::vector<Compared> all;
  const compare::Drive& first = drives[0];
  for (const compare::Drive& drive : drives) {
    Compared& one = all.emplace_back(Compared{drive, {}});
    if (&drive == &first) continue;
    if (!first.route.empty() && !drive.route.empty() && first.route != drive.route) {
      fail("{} is of route {}, {} of {}", first.name, first.route, drive.name, drive.route);
    }
    one.terms = compare::driving_terms(drive.models, first.models);
  }
  const std::vector<std::string> wrong = beyond(all, limits.max_plan_error);
  if (program.json) {
    document["drives"] = Json::array();
    for (const Compared& one : all) document["drives"].push_back(to_json(one));
    document["beyond_limits"] = wrong;
    print_json(document);
  } else {
    for (size_t i = 1; i < all.size(); ++i) print_terms(all[i], all[0].drive.name);
    print_against_drive(all);
  }
  for (const std::string& line : wrong) note(line);
  return wrong.empty() ? kDone : kCheckFailed;
}

}  // namespace sparkpilot::cli
