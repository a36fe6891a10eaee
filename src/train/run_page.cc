#include "train/run_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/version.h"

namespace sparkpilot::train {
namespace {

using drive::Plot, drive::Series;
using Json = nlohmann::ordered_json;
using Curves = std::map<std::string, Series>;

constexpr int kHeadHeight = 200;  // of a figure, pixels

// By the number of updates, of updates and of evaluations, in the order of the file.
struct Metrics {
  Curves training, evaluation;
  std::vector<std::string> names;  // of reports, in their order
};

void add(Curves& curves, const std::string& name, double x, const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return;
  const Json& value = object[key];  // null is what was not finite
  curves[name].x.push_back(x);
  curves[name].y.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
}

void take_line(const Json& line, Metrics& into) {
  if (!line.is_object() || !line.contains("update") || !line["update"].is_number()) return;
  const auto x = line["update"].get<double>();
  const bool evaluation = line.contains("evaluation_loss");
  Curves& curves = evaluation ? into.evaluation : into.training;
  add(curves, "loss", x, line, evaluation ? "evaluation_loss" : "loss");
  add(curves, "rate", x, line, "rate");
  add(curves, "gradient_norm", x, line, "gradient_norm");
  const char* const reports = evaluation ? "evaluation_reports" : "reports";
  if (line.contains(reports) && line[reports].is_object()) {
    for (const auto& [name, value] : line[reports].items()) {
      add(curves, name, x, line[reports], name.c_str());
      if (std::ranges::find(into.names, name) == into.names.end()) into.names.push_back(name);
    }
  }
  if (evaluation || !line.contains("time")) return;
  add(curves, "samples_per_second", x, line["time"], "samples_per_second");
  add(curves, "waited", x, line["time"], "waited");
}

Metrics read_metrics(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail("{}: cannot be read", file.string());
  Metrics out;
  for (std::string line; std::getline(in, line);) {
    try {
      if (const std::optional<Json> json = parse_bounded(line)) take_line(*json, out);
    } catch (const Json::exception&) {  // a line that a killed run left incomplete
    }
  }
  return out;
}

const Series* find(const Curves& curves, const std::string& name) {
  const auto found = curves.find(name);
  return found == curves.end() ? nullptr : &found->second;
}

class RunFigures {
 public:
  RunFigures(drive::Page& page, const Metrics& metrics) : page_(page), metrics_(metrics) {}

  // Begins with the first figure of it that there is.
  void section(std::string title) { section_ = std::move(title); }

  // A value while training and in evaluations.
  void both(const std::string& name, Plot plot) {
    for (const auto& [curves, what] :
         {std::pair(&metrics_.training, "training"), std::pair(&metrics_.evaluation, "evaluation")}) {
      if (const Series* series = find(*curves, name)) add(plot, *series, what);
    }
    show(std::move(plot));
  }
  // Several values, of evaluations if there are any.
  void together(const std::string& begin, Plot plot) {
    const bool evaluated = !metrics_.evaluation.empty();
    for (const std::string& name : metrics_.names) {
      const Series* const series = find(evaluated ? metrics_.evaluation : metrics_.training, name);
      if (name.starts_with(begin) && series != nullptr) add(plot, *series, name.substr(begin.size()));
    }
    plot.title += evaluated ? ", evaluation" : ", training";
    show(std::move(plot));
  }
  void one(const std::string& name, Plot plot) {
    if (const Series* series = find(metrics_.training, name)) add(plot, *series, "");
    show(std::move(plot));
  }

 private:
  static void add(Plot& plot, Series series, const std::string& name) {
    series.name = name;
    plot.series.push_back(std::move(series));
  }
  void show(Plot plot) {
    if (plot.series.empty()) return;
    if (!section_.empty()) page_.section(std::exchange(section_, {}));
    plot.x_label = "updates";
    page_.plot(plot);
  }

  drive::Page& page_;
  const Metrics& metrics_;
  std::string section_;
};

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : "not finite"; }

void add_headlines(drive::Page& page, const TrainingSummary& summary, const Metrics& metrics) {
  std::vector<drive::Headline> out;
  out.push_back({"updates", std::to_string(summary.progress.updates), fmt::format("ended: {}", name(summary.ended))});
  if (const Series* loss = find(metrics.training, "loss")) {
    out.push_back({"loss", number(loss->y.back()), "first: " + number(loss->y.front())});
  }
  if (summary.progress.best) {
    out.push_back({"best evaluation", number(*summary.progress.best),
                   "after " + count_of(summary.progress.best_updates, "update")});
  }
  const bool evaluated = find(metrics.evaluation, "plan_error_4s") != nullptr;
  if (const Series* plan = find(evaluated ? metrics.evaluation : metrics.training, "plan_error_4s")) {
    out.push_back({"plan error at 4 s", number(plan->y.back()) + " m",
                   fmt::format("first: {} m, {}", number(plan->y.front()), evaluated ? "evaluation" : "training")});
  }
  if (const Series* speed = find(metrics.training, "samples_per_second")) {
    out.push_back({"samples a second", fmt::format("{:.0f}", speed->y.back()),
                   fmt::format("{:.0f} s of training", summary.progress.seconds)});
  }
  page.figures(out);
}

// First, best (by the evaluation's loss) and last values.
void add_table(drive::Page& page, const Metrics& metrics, int64_t best) {
  const bool evaluated = !metrics.evaluation.empty();
  const Curves& curves = evaluated ? metrics.evaluation : metrics.training;
  std::vector<std::string> headings{"value", "first", "last"};
  if (evaluated) headings.insert(headings.begin() + 2, "best");
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& name) {
    const Series* const series = find(curves, name);
    if (series == nullptr) return;
    std::vector<std::string> cells{name, number(series->y.front())};
    if (evaluated) {
      const auto at = std::ranges::find(series->x, static_cast<double>(best)) - series->x.begin();
      cells.push_back(at < std::ssize(series->y) ? number(series->y[static_cast<size_t>(at)]) : "-");
    }
    cells.push_back(number(series->y.back()));
    rows.push_back(std::move(cells));
  };
  row("loss");
  for (const std::string& name : metrics.names) row(name);
  page.table(headings, rows, evaluated ? "Evaluations; the best is the one with the least loss." : "Updates.");
}

}  // namespace

std::string run_page(const RunPage& run) {
  const Metrics metrics = read_metrics(run.out / "metrics.jsonl");
  const TrainingSummary& summary = run.summary;
  drive::Page page("Training", run.out.filename().string());
  add_headlines(page, summary, metrics);
  if (!summary.reason.empty()) page.warning(summary.reason);
  for (const std::string& text : run.notes) page.note(text);
  if (!run.key_frames.empty()) {
    page.section("Key frames");
    if (!run.key_frames_text.empty()) page.text(run.key_frames_text);
    page.images(run.key_frames);
  }
  RunFigures figures(page, metrics);
  figures.section("Loss");
  figures.both("loss", {.title = "Loss"});
  figures.section("Errors in metres");
  figures.together("plan_error_", {.title = "Distance of the plan from the target's", .y_label = "m", .y_low = 0});
  figures.together("rollout_plan_error_",
                   {.title = "The same with the student's own features of the past", .y_label = "m", .y_low = 0});
  figures.together("driven_error_", {.title = "Distance of the plan from the driven path", .y_label = "m", .y_low = 0});
  figures.both("lane_error_20m",
               {.title = "Distance of the lane lines from the target's, 20 m ahead", .y_label = "m", .y_low = 0});
  figures.section("Loss by head");
  for (const std::string& name : metrics.names) {
    if (name.starts_with("loss.")) figures.both(name, {.title = name.substr(5), .height = kHeadHeight});
  }
  figures.section("Rate and speed");
  figures.one("rate", {.title = "Learning rate", .y_low = 0, .height = kHeadHeight});
  figures.one("gradient_norm", {.title = "Norm of the gradient, before clipping", .y_low = 0, .height = kHeadHeight});
  figures.one("samples_per_second",
              {.title = "Samples a second, since the run began or was resumed", .y_low = 0, .height = kHeadHeight});
  figures.one(
      "waited",
      {.title = "Part of the time that steps waited for samples", .y_low = 0, .y_high = 1, .height = kHeadHeight});
  if (!metrics.training.empty() || !metrics.evaluation.empty()) {
    page.section("Values");
    add_table(page, metrics, summary.progress.best_updates);
  }
  if (!run.facts.empty()) {
    page.section("What was trained");
    page.table({"what", "which"}, run.facts);
  }
  page.footer(fmt::format("sparkpilot {}. For development only: never for control of a real car.", program_version()));
  return page.str();
}

}  // namespace sparkpilot::train
