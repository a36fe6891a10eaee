#include "compare/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace sparkpilot::compare {
namespace {

using drive::ModelRecord;
using drive::Plot;
using drive::Series;
using Rows = std::vector<std::vector<std::string>>;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kShownFlips = 3;

double front(const std::vector<float>& list) { return list.empty() ? kNone : static_cast<double>(list[0]); }

double lane_offset(const ModelRecord& model, size_t line) {
  return line < model.lane_lines.size() ? front(model.lane_lines[line].y) : kNone;
}

// The values that a reader looks at first, one figure each.
struct Shown {
  const char* title;
  const char* unit;
  double (*value)(const ModelRecord&);
};

constexpr Shown kShown[] = {
    {"Desired curvature", "1/m",
     [](const ModelRecord& m) { return m.action ? static_cast<double>(m.action->curvature) : kNone; }},
    {"Desired acceleration", "m/s2",
     [](const ModelRecord& m) { return m.action ? static_cast<double>(m.action->acceleration) : kNone; }},
    {"Speed of the plan, now", "m/s", [](const ModelRecord& m) { return front(m.velocity.x); }},
    {"Left lane line, now", "m", [](const ModelRecord& m) { return lane_offset(m, 1); }},
    {"Right lane line, now", "m", [](const ModelRecord& m) { return lane_offset(m, 2); }},
    {"Distance of the lead", "m", [](const ModelRecord& m) { return m.leads.empty() ? kNone : front(m.leads[0].x); }},
    {"Probability of the lead", "",
     [](const ModelRecord& m) { return m.leads.empty() ? kNone : static_cast<double>(m.leads[0].prob); }},
};

// Seconds since the first frame of any drive: the axis that all plots share.
class TimeAxis {
 public:
  explicit TimeAxis(const std::vector<const Drive*>& drives) {
    for (const Drive* drive : drives) {
      for (const ModelRecord& model : drive->models) time_[model.frame_id] = model.timestamp_eof;
    }
    if (time_.empty()) return;
    const auto [first, last] = std::minmax_element(time_.begin(), time_.end(),
                                                   [](const auto& a, const auto& b) { return a.second < b.second; });
    start_ = first->second;
    length_ = static_cast<double>(last->second - start_) * 1e-9;
  }

  double of(uint32_t frame_id) const {
    const auto found = time_.find(frame_id);
    return found == time_.end() ? kNone : static_cast<double>(found->second - start_) * 1e-9;
  }
  Plot over_all(Plot plot) const {
    plot.x_low = 0;
    plot.x_high = length_;
    return plot;
  }

 private:
  std::map<uint32_t, uint64_t> time_;
  uint64_t start_ = 0;
  double length_ = 0;
};

// The difference of a frame in words, for a picture's caption.
std::string words_of(const FrameTerms& frame, const DrivingTerms& terms) {
  std::string out;
  for (size_t i = 0; i < frame.values.size(); ++i) {
    if (!frame.values[i]) continue;
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", terms.terms[i].name, to_text(frame.values[i]),
                       terms.terms[i].unit);
  }
  return out + (frame.flipped ? "; a decision differs" : "");
}

void add_moments(drive::Page& page, const ComparedDrive& other, const TimeAxis& time) {
  if (other.film.pictures.empty() && other.film_file.empty() && other.film.notes.empty()) return;
  page.section(fmt::format("{}: worst moments", other.drive->name));
  page.text("The frames whose plans are furthest apart, at the latest time to which both reach, of different seconds.");
  std::vector<drive::PagePicture> pictures;
  for (const FrameTerms& frame : other.worst) {
    const auto jpeg = other.film.pictures.find(frame.frame_id);
    if (jpeg == other.film.pictures.end()) continue;
    drive::PagePicture& picture = pictures.emplace_back();
    picture.caption =
        fmt::format("frame {}, {:.2f} s: {}", frame.frame_id, time.of(frame.frame_id), words_of(frame, other.terms));
    picture.bytes = jpeg->second;
    picture.alt = fmt::format("frame {} with both plans", frame.frame_id);
    const auto second = other.film.seconds.find(frame.frame_id);
    if (!other.film_file.empty() && second != other.film.seconds.end()) {
      picture.link = {.file = other.film_file, .seconds = second->second};
    }
  }
  if (!pictures.empty()) page.images(pictures);
  if (!other.film_file.empty()) page.link("the film of both on the same frames", {.file = other.film_file});
  for (const std::string& note : other.film.notes) page.note(note);
}

void add_distances(drive::Page& page, const ComparedDrive& other, const TimeAxis& time) {
  Plot plot{.title = fmt::format("{}: distance of the plans", other.drive->name), .y_label = "m"};
  plot.y_low = 0;
  for (size_t h = 0; h < drive::kHorizons; ++h) {
    Series& series = plot.series.emplace_back();
    series.name = fmt::format("{:.0f} s ahead", drive::kHorizonSeconds[h]);
    for (const FrameTerms& frame : other.terms.by_frame) {
      if (!frame.values[h]) continue;
      series.x.push_back(time.of(frame.frame_id));
      series.y.push_back(*frame.values[h]);
    }
  }
  page.plot(time.over_all(std::move(plot)));
}

void add_values(drive::Page& page, const std::vector<const Drive*>& drives, const TimeAxis& time) {
  for (const Shown& shown : kShown) {
    Plot plot{.title = shown.title, .y_label = shown.unit};
    bool any = false;
    for (const Drive* drive : drives) {
      Series& series = plot.series.emplace_back();
      series.name = drive->name;
      series.dashed = drive != drives[0];
      for (const ModelRecord& model : drive->models) {
        const double y = shown.value(model);
        if (!std::isfinite(y)) continue;
        any = true;
        series.x.push_back(time.of(model.frame_id));
        series.y.push_back(y);
      }
      if (series.x.empty()) series.name += ": not compared";
    }
    if (any) page.plot(time.over_all(std::move(plot)));
  }
}

std::vector<std::string> row_of(const drive::FieldComparison& field) {
  std::string frames;
  for (const drive::FrameDifference& worst : field.worst)
    frames += fmt::format("{}{}", frames.empty() ? "" : ", ", worst.frame_id);
  return {field.name,
          field.unit,
          to_text(field.mean_abs),
          to_text(field.p99),
          to_text(field.max),
          drive::to_text(field.tolerance),
          field.absent_in_ours ? "missing here" : frames,
          std::string(drive::to_text(field.outcome()))};
}

drive::Tone tone_of(drive::Outcome outcome) {
  return outcome == drive::Outcome::beyond         ? drive::Tone::bad
         : outcome == drive::Outcome::not_compared ? drive::Tone::faint
                                                   : drive::Tone::plain;
}

void add_fields(drive::Page& page, const ComparedDrive& other) {
  if (!other.fields) return;
  const drive::ModelComparison& comparison = *other.fields;
  page.section(fmt::format("{}: every field", other.drive->name));
  Rows rows;
  std::vector<drive::Tone> tones;
  bool beyond = false;
  for (const drive::FieldComparison* field : drive::shown_fields(comparison)) {
    rows.push_back(row_of(*field));
    tones.push_back(tone_of(field->outcome()));
    beyond = beyond || field->outcome() == drive::Outcome::beyond;
  }
  if (beyond) page.warning("Not the same model: fields differ by more than their tolerance.");
  else if (!comparison.ok()) page.warning("Nothing was compared: no frame, or no field, is in both.");
  page.table(
      {"field", "unit", "mean", "99 %", "max", "tolerance", "worst frames", "outcome"}, rows,
      "Absolute differences, within their tolerance or beyond it. Not compared: the reference has no such output.",
      tones);
}

std::vector<drive::Headline> headlines(const ComparedDrive& other) {
  std::vector<drive::Headline> out;
  const std::string& name = other.drive->name;
  out.push_back({"frames in both", std::to_string(other.terms.frames), name});
  for (size_t h = drive::kHorizons; h-- > 0;) {
    const Term& term = other.terms.terms[h];
    if (term.frames == 0) continue;
    out.push_back({term.name, to_text(term.p99) + " m", "apart in 99 % of the frames at most"});
    break;
  }
  size_t flips = 0;
  for (const Decision& decision : other.terms.decisions) flips += decision.flips.size();
  out.push_back({"decisions that differ", std::to_string(flips), "desire, lead, engaged, stop"});
  return out;
}

}  // namespace

std::vector<const Drive*> ComparisonPage::drives() const {
  std::vector<const Drive*> out{first};
  for (const ComparedDrive& other : others) out.push_back(other.drive);
  return out;
}

void add_table(drive::Page& page, const Rows& table, const std::string& caption) {
  if (table.size() > 1) page.table(table[0], {table.begin() + 1, table.end()}, caption);
}

std::string to_text(const std::optional<double>& value) { return value ? fmt::format("{:.3g}", *value) : "-"; }

Rows terms_table(const DrivingTerms& terms) {
  Rows rows{{"difference of", "unit", "frames", "mean", "99 %", "max", "worst frame", "only there"}};
  for (const Term& term : terms.terms) {
    rows.push_back({term.name, term.unit, std::to_string(term.frames), to_text(term.mean), to_text(term.p99),
                    to_text(term.max), term.frames > 0 ? std::to_string(term.worst_frame) : "-",
                    std::to_string(term.only_reference)});
  }
  return rows;
}

Rows decisions_table(const DrivingTerms& terms) {
  Rows rows{{"decision", "frames", "flips", "at frames"}};
  for (const Decision& d : terms.decisions) {
    std::string at;
    for (size_t i = 0; i < std::min(kShownFlips, d.flips.size()); ++i)
      at += (i ? ", " : "") + std::to_string(d.flips[i]);
    if (d.flips.size() > kShownFlips) at += ", ...";
    rows.push_back({d.name, std::to_string(d.frames), std::to_string(d.flips.size()), at.empty() ? "-" : at});
  }
  return rows;
}

Rows against_drive_table(const std::vector<const Drive*>& drives) {
  const std::vector<AgainstDrive> summaries = against_drive(drives);
  Rows rows{{"plan against the drive, m"}};
  for (const drive::PlanErrorSummary& s : summaries[0]) rows[0].push_back(fmt::format("{:.0f} s", s.horizon));
  bool any = false;
  for (size_t i = 0; i < drives.size(); ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(drives[i]->name);
    for (const drive::PlanErrorSummary& s : summaries[i]) {
      any |= s.count > 0;
      row.push_back(to_text(s.distance_mean));
    }
  }
  return any ? rows : Rows{};
}

std::string to_html(const ComparisonPage& what) {
  const std::vector<const Drive*> drives = what.drives();
  const TimeAxis time(drives);
  drive::Page page("Comparison of drives", what.first->route.empty() ? what.first->name : what.first->route);
  if (what.others.size() == 1) page.figures(headlines(what.others[0]));
  for (const std::string& line : what.beyond) page.warning(line);
  for (const std::string& line : what.notes) page.note(line);
  for (const ComparedDrive& other : what.others) {
    page.section(fmt::format("{} against {}", other.drive->name, what.first->name));
    page.text(fmt::format("{} in both, {} only in {}, {} only in {}.", count_of(other.terms.frames, "frame"),
                          other.terms.only_ours, other.drive->name, other.terms.only_reference, what.first->name));
    add_table(page, terms_table(other.terms), "Absolute differences, frame by frame.");
    add_table(page, decisions_table(other.terms));
  }
  if (!what.speed.empty()) {
    page.section("Speed");
    add_table(page, what.speed, "The networks alone, per frame; in turns on the same frames.");
  }
  if (const Rows against = against_drive_table(drives); !against.empty()) {
    page.section("Against the path that was driven");
    add_table(page, against,
              "Mean distance, in frames in which all have one. The driver's path is not the only right one.");
  }
  for (const ComparedDrive& other : what.others) add_moments(page, other, time);
  for (const ComparedDrive& other : what.others) add_fields(page, other);
  page.section("Over time");
  for (const ComparedDrive& other : what.others) add_distances(page, other, time);
  add_values(page, drives, time);
  page.footer(fmt::format("sparkpilot {}. For development only: never for control of a real car.", what.version));
  return page.str();
}

}  // namespace sparkpilot::compare
