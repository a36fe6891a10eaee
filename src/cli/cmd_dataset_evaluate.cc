// sparkpilot dataset evaluate: a driving model held against what is known of a data set.
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/driving_models.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "train/driver_score.h"
#include "train/own_features.h"
#include "train/score.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvaluateFlags {
  std::string folder, split = "validation", target, one;
  bool blank = false;
  int64_t batch = 32;
  DrivingModelFlags model;
};

Json path_json(const train::PathScore& path) {
  return {{"distance", path.distance}, {"aside", path.aside}, {"beside", path.beside}};
}

Json score_json(const train::Score& score) {
  return {{"samples", score.samples},
          {"known", score.known},
          {"reached", score.reached},
          {"model", path_json(score.model)},
          {"keep_speed_and_curvature", path_json(score.keep)},
          {"straight_on", path_json(score.straight)},
          {"from_target", path_json(score.from_target)},
          {"lane_error_20m", score.lane_lines > 0 ? Json(score.lanes) : Json()},
          {"lane_lines", score.lane_lines}};
}

void print_score(const train::Score& score, bool against_teacher) {
  using Values = std::array<double, 4>;
  const auto add_row = [](Table& table, const std::string& what, const Values& values,
                          const std::array<int64_t, 4>& counts) {
    std::vector<std::string> cells{what};
    for (size_t i = 0; i < values.size(); ++i) cells.push_back(counts[i] > 0 ? fmt::format("{:.2f}", values[i]) : "-");
    table.add(cells);
  };
  Table after({"metres from the driven path", "1 s", "2 s", "4 s", "6 s"});
  add_row(after, "model", score.model.distance, score.known);
  add_row(after, "  of it sideways", score.model.aside, score.known);
  add_row(after, "keep speed and curvature", score.keep.distance, score.known);
  add_row(after, "  of it sideways", score.keep.aside, score.known);
  add_row(after, "straight on", score.straight.distance, score.known);
  print(after.str() + "\n");
  if (against_teacher) {
    const std::array<int64_t, 4> all{score.samples, score.samples, score.samples, score.samples};
    Table from({"metres from the teacher's path", "1 s", "2 s", "4 s", "6 s"});
    add_row(from, "model", score.from_target.distance, all);
    add_row(from, "  of it sideways", score.from_target.aside, all);
    print(from.str() + "\n");
  }
  Table ahead({"metres to its side, at", "20 m", "40 m", "60 m", "80 m"});
  add_row(ahead, "model", score.model.beside, score.reached);
  add_row(ahead, "keep curvature", score.keep.beside, score.reached);
  add_row(ahead, "straight on", score.straight.beside, score.reached);
  print(ahead.str());
  if (score.lane_lines > 0) print(fmt::format("\nlane lines, 20 m ahead: {:.2f} m\n", score.lanes));
}

Json side_json(const train::DriverErrors& errors) {
  Json probabilities = Json::object();
  for (const auto& [head, error] : errors.probabilities) probabilities[head] = error;
  const bool any = errors.faces > 0;
  return {{"faces", errors.faces},
          {"orientation_deg", any ? Json(errors.orientation) : Json()},
          {"position", any ? Json(errors.position) : Json()},
          {"probabilities", probabilities}};
}

int report_driver(const Program& program, const EvaluateFlags& flags, const train::DriverScore& score) {
  if (program.json) {
    print_json({{"samples", score.samples},
                {"left", side_json(score.left)},
                {"right", side_json(score.right)},
                {"wheel_on_right", score.wheel_on_right},
                {"blank", flags.blank}});
    return kDone;
  }
  print(fmt::format("{}{}\n\n", count_of(score.samples, "sample"), flags.blank ? ", pictures replaced by grey" : ""));
  Table table({"mean difference from the teacher", "left", "right"});
  const auto of_faces = [](const train::DriverErrors& errors, double value) {
    return errors.faces > 0 ? fmt::format("{:.3f}", value) : std::string("-");
  };
  const train::DriverErrors &left = score.left, &right = score.right;
  table.add({"faces that the teacher sees", std::to_string(left.faces), std::to_string(right.faces)});
  table.add({"  orientation, degrees", of_faces(left, left.orientation), of_faces(right, right.orientation)});
  table.add({"  position, share of the picture", of_faces(left, left.position), of_faces(right, right.position)});
  for (size_t i = 0; i < left.probabilities.size(); ++i) {
    table.add({"probability: " + left.probabilities[i].first, fmt::format("{:.3f}", left.probabilities[i].second),
               fmt::format("{:.3f}", right.probabilities[i].second)});
  }
  table.add({"probability: wheel on the right", fmt::format("{:.3f}", score.wheel_on_right), ""});
  print(table.str());
  return kDone;
}

// Unless it is given: what is true, where that is known.
train::Target target_of(const EvaluateFlags& flags, const train::DatasetInfo& info) {
  const bool labels = flags.target.empty() ? info.source == train::Source::synthetic : flags.target == "labels";
  return labels && !info.of_driver() ? train::Target::labels : train::Target::teacher;
}

train::StudentOptions student_of(const Program& program, const EvaluateFlags& flags, const train::DatasetInfo& info,
                                 train::Target target) {
  train::StudentOptions options{.batch = flags.batch, .mode = train::TrainMode::full};
  options.target = target;
  if (!flags.one.empty()) {
    expect_alone(program, flags.model, "--model");
    options.networks = {{train::role_of_model(info, flags.one), flags.one}};
    return options;
  }
  if (info.of_driver()) fail("this data set is of driver monitoring: give the model with --model FILE");
  const drive::ModelFiles models = chosen_driving_model(program, flags.model, "--model FILE");
  if (!models.supercombo.empty()) options.networks = {{"supercombo", models.supercombo}};
  else options.networks = {{"vision", models.vision}, {"policy", models.policy}};
  return options;
}

int evaluate(const Program& program, const EvaluateFlags& flags) {
  expect_at_least("--batch", flags.batch, 1);
  const auto split = flags.split == "all"     ? train::Split::all
                     : flags.split == "train" ? train::Split::train
                                              : train::Split::validation;
  const train::Dataset data(flags.folder,
                            {.split = split, .blank = flags.blank, .may_be_empty = split != train::Split::all});
  if (data.size() == 0) {
    fail("{}: none of its clips has {} samples; --split all takes those that there are", flags.folder,
         split == train::Split::train ? "training" : "validation");
  }
  const train::DatasetInfo& info = data.info();
  const train::Target target = target_of(flags, info);
  if (target == train::Target::labels && info.source == train::Source::routes) {
    fail("{}: is of recorded routes, without labels of what is true; --against teacher compares with the teacher",
         flags.folder);
  }
  if (target == train::Target::teacher && !info.teacher) {
    fail("{}: no teacher ran on it; --against labels compares with what is true", flags.folder);
  }
  const train::StudentOptions options = student_of(program, flags, info, target);
  const train::Student student(options, data.fields());
  train::ProgramOptions settings;
  const int threads = chosen_threads(program).value_or(0);
  settings.session = {.threads = threads > 0 ? threads : available_processors(), .tune = Tune::off};
  train::TrainingProgram steps = student.program(settings);
  if (data.info().of_driver()) return report_driver(program, flags, train::score_driver(steps, student, data));
  const std::string without = train::OwnFeatures::refusal(data.info(), student);
  std::unique_ptr<train::OwnFeatures> own;
  if (without.empty()) {
    own = std::make_unique<train::OwnFeatures>(data, data, student);
    Comm alone;
    own->renew(steps, false, alone);
    if (const std::string text = own->missing(); !text.empty() && !program.quiet) note(text);
  } else if (!program.quiet) {
    note("the past is the data set's: " + without);
  }
  const std::vector<train::NamedScore> scores =
      train::score(steps, student, data, own ? *own : static_cast<const train::Samples&>(data));
  if (program.json) {
    Json clips = Json::array();
    for (const auto& [clip, score] : scores) {
      if (clip.empty()) continue;
      Json one = score_json(score);
      one["clip"] = clip;
      clips.push_back(std::move(one));
    }
    Json all = score_json(scores.back().score);
    all["seconds"] = train::kScoreSeconds;
    all["metres"] = train::kScoreMetres;
    all["own_features"] = own != nullptr;
    all["blank"] = flags.blank;
    all["clips"] = std::move(clips);
    print_json(all);
    return kDone;
  }
  print(fmt::format("{} of {}{}{}\n\n", count_of(scores.back().score.samples, "sample"),
                    count_of(std::ssize(scores) - 1, "clip"), own ? ", the past as the model remembers it" : "",
                    flags.blank ? ", pictures replaced by grey" : ""));
  print_score(scores.back().score, options.target == train::Target::teacher);
  return kDone;
}

}  // namespace

void add_dataset_evaluate(Program& program, Command group) {
  const auto flags = std::make_shared<EvaluateFlags>();
  const Command command =
      add_command(program, group, "evaluate",
                  "how far a model is from what is known: path and lane lines in metres, the driver's face in degrees",
                  "  sparkpilot dataset evaluate roads --supercombo out/run/demo_supercombo.onnx\n"
                  "  sparkpilot dataset evaluate data --models models --against teacher --split all --json\n"
                  "  sparkpilot dataset evaluate driver --model dmonitoring_model.onnx@out/run/adapter\n"
                  "Compared with two paths that take no picture: the car's speed and curvature kept, and straight on.",
                  [&program, flags] { return evaluate(program, *flags); });
  command.add_option("folder", flags->folder, "folder of the data set").type_name("DIR").required();
  add_driving_model_flags(program, command, flags->model);
  add_one_model_flag(command, flags->one);
  add_choice(command, "--split", flags->split, {"validation", "train", "all"}, "of the routes", "WHICH");
  add_choice(command, "--against", flags->target, {"labels", "teacher"},
             "whose lane lines, and with `teacher` also whose path: what is true of synthetic roads (the default for "
             "these), or the teacher's",
             "WHAT");
  command.add_flag("--blank", flags->blank, "with grey pictures: what the model says without looking");
  add_number(command, "--batch", flags->batch, "samples at a time");
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
