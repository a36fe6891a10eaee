// sparkpilot dataset evaluate: a model's path and lane lines in metres, beside paths that take no picture.
#include <sstream>

#include "route/contract/outputs.h"
#include "sparkpilot/onnx.h"
#include "train/dataset.h"
#include "train_fixture.h"

namespace sparkpilot {
namespace dataset_evaluate_test {

using DatasetEvaluate = TrainCli;

json evaluated(const std::string& words) {
  const ProgramResult result = run_program("dataset evaluate " + words + " --json --threads 1 --batch 4");
  EXPECT_EQ(result.code, 0) << words << "\n" << result.err;
  return json::parse(result.out, nullptr, false);
}

// Reports of the last evaluation of a run that changes nothing.
json reports_of(const std::string& folder) {
  json out;
  std::istringstream lines(read_text(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json metrics = json::parse(line);
    if (metrics.contains("evaluation_reports")) out = metrics["evaluation_reports"];
  }
  return out;
}

// The training's own evaluation of the same model, whose errors are nodes of its graph, says the same.
TEST_F(DatasetEvaluate, AgreesWithTheEvaluationOfATraining) {
  parsed(one() + out("run") + "--batch 1 --rate 1e-30 --updates 1 --rank 1 --against labels --threads 1");
  const json reports = reports_of(folder.file("run"));
  const std::string model = "--supercombo '" + shared->file("one") + "/tiny_driving_supercombo.onnx'";
  const json score = evaluated("'" + shared->file("roads") + "' " + model);
  ASSERT_EQ(score["seconds"], json::parse("[1, 2, 4, 6]"));
  EXPECT_EQ(score["own_features"], true);
  EXPECT_EQ(score["samples"], 10);
  for (size_t i = 0; i < 4; ++i) {
    const double expected = reports["rollout_driven_error_" + score["seconds"][i].dump() + "s"];
    EXPECT_NEAR(score["model"]["distance"][i], expected, 2e-3 * expected) << i;
    EXPECT_LE(score["model"]["aside"][i], score["model"]["distance"][i]);
    const double from_target = reports["rollout_plan_error_" + score["seconds"][i].dump() + "s"];
    EXPECT_NEAR(score["from_target"]["distance"][i], from_target, 2e-3 * from_target) << i;
  }
  const double lanes = reports["lane_error_20m"];
  EXPECT_GT(lanes, 0);
  EXPECT_NEAR(score["lane_error_20m"], lanes, 2e-3 * lanes);
  // By clip: there is one.
  ASSERT_EQ(score["clips"].size(), 1u);
  EXPECT_EQ(score["clips"][0]["model"], score["model"]);
}

// The two paths without a picture, in small steps instead of in closed form.
TEST_F(DatasetEvaluate, KeepsSpeedAndCurvature) {
  const std::string folder = shared->file("roads");
  const json score =
      evaluated("'" + folder + "' --split all --supercombo '" + shared->file("one") + "/tiny_driving_supercombo.onnx'");
  const train::Dataset data(folder);
  ASSERT_EQ(score["samples"], data.size());
  ASSERT_EQ(score["clips"].size(), 2u);
  const size_t driven = train::place_of(data.fields(), "driven.plan");
  double keep = 0, straight = 0, beside = 0;
  int64_t reached = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Tensor plan = train::sample_of(data, i)[driven];
    const auto at = [&](double point, int column) {
      const int before = static_cast<int>(point);
      const double share = point - before;
      const auto value = [&](int row) {
        return static_cast<double>(plan.data<float>()[static_cast<size_t>(row * drive::kPlanWidth + column)]);
      };
      return (1 - share) * value(before) + share * value(before + 1);
    };
    constexpr double kAt4s = 20 + (4 - drive::plan_time(20)) / (drive::plan_time(21) - drive::plan_time(20));
    const double speed = at(0, drive::kVelocity), rate = at(0, drive::kOrientationRate + 2);
    double x = 0, y = 0;
    constexpr int kSteps = 4000;
    for (int step = 0; step < kSteps; ++step) {
      const double heading = rate * 4 * (step + 0.5) / kSteps;
      x += speed * 4 / kSteps * std::cos(heading);
      y += speed * 4 / kSteps * std::sin(heading);
    }
    keep += std::hypot(x - at(kAt4s, 0), y - at(kAt4s, 1), at(kAt4s, 2));
    straight += std::hypot(speed * 4 - at(kAt4s, 0), at(kAt4s, 1), at(kAt4s, 2));
    // Straight on is a line through y = 0, whatever its speed: what is beside it is the driven path's y.
    double point = 0;
    while (point < 32 && at(point, 0) < 60) point += 1.0 / 64;
    if (at(std::min(point, 31.999), 0) < 59.9) continue;
    ++reached;
    beside += std::abs(at(point, 1));
  }
  const auto count = static_cast<double>(data.size());
  EXPECT_NEAR(score["keep_speed_and_curvature"]["distance"][2], keep / count, 1e-3);
  EXPECT_NEAR(score["straight_on"]["distance"][2], straight / count, 1e-3);
  EXPECT_GT(keep, 0);
  EXPECT_EQ(score["metres"], json::parse("[20, 40, 60, 80]"));
  ASSERT_EQ(score["reached"][2], reached);
  ASSERT_GT(reached, 0);
  EXPECT_NEAR(score["straight_on"]["beside"][2], beside / static_cast<double>(reached), 0.02);
  EXPECT_LT(score["keep_speed_and_curvature"]["beside"][0], score["straight_on"]["beside"][3]);
}

TEST_F(DatasetEvaluate, GreyPicturesAreAnotherModel) {
  const std::string model = "--supercombo '" + shared->file("one") + "/tiny_driving_supercombo.onnx'";
  const json seen = evaluated("'" + shared->file("roads") + "' " + model);
  const json blank = evaluated("'" + shared->file("roads") + "' --blank " + model);
  EXPECT_EQ(blank["blank"], true);
  EXPECT_EQ(blank["straight_on"], seen["straight_on"]);
  EXPECT_NE(blank["model"], seen["model"]);
}

// Neither now nor in its memory: what the model says is the same by day and by night.
TEST_F(DatasetEvaluate, GreyPicturesAreNotRemembered) {
  const std::string model = " --supercombo '" + shared->file("one") + "/tiny_driving_supercombo.onnx'";
  json blank[2], seen[2];
  const char* const lights[] = {"day", "night"};
  for (size_t i = 0; i < 2; ++i) {
    const std::string roads = "'" + folder.file(lights[i]) + "'";
    const ProgramResult built =
        run_program("dataset build --quiet --synthetic 1 --seed 7 --seconds 2 --no-teacher --light " +
                    std::string(lights[i]) + " --out " + roads + model);
    ASSERT_EQ(built.code, 0) << built.err;
    blank[i] = evaluated(roads + " --split all --blank" + model);
    seen[i] = evaluated(roads + " --split all" + model);
  }
  EXPECT_EQ(seen[0]["straight_on"], seen[1]["straight_on"]);  // the same road
  EXPECT_NE(seen[0]["model"], seen[1]["model"]);
  EXPECT_EQ(blank[0]["model"], blank[1]["model"]);
}

TEST_F(DatasetEvaluate, TwoNetworksAgainstTheTeacher) {
  const std::string words = "'" + shared->file("answers") + "' --models '" + shared->file("models") + "' ";
  const json score = evaluated(words + "--against teacher");
  EXPECT_GT(score["model"]["distance"][0], 0);
  const ProgramResult text = run_program("dataset evaluate " + words + "--threads 1");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("keep speed and curvature"), std::string::npos) << text.out;
}

// A stand-in's weights mean nothing; a trained one's do, and `zoo build` must not replace it.
TEST_F(DatasetEvaluate, ATrainedModelIsNoStandInAnyMore) {
  parsed(one() + out("run") + "--batch 1 --updates 1 --mode full --against labels --no-rollout --threads 1");
  const std::filesystem::path file = std::filesystem::path(folder.file("run")) / "tiny_driving_supercombo.onnx";
  EXPECT_EQ(load_onnx(file).metadata.at("model_checkpoint"), "sparkpilot-trained/tiny_driving_supercombo/1");
  const ProgramResult refused =
      run_program("zoo build tiny_driving_supercombo --quiet --out '" + folder.file("run") + "'");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("is not a stand-in"), std::string::npos) << refused.err;
  EXPECT_FALSE(reports_of(folder.file("run")).contains("rollout_plan_error_4s"));
}

// The model that is part of the repository sees a road that it was not trained on.
TEST_F(DatasetEvaluate, TheDemonstrationSeesTheRoad) {
  const std::string model = " --supercombo '" SPARKPILOT_SOURCE_DIR "/models/demo_supercombo.onnx'";
  const std::string roads = "'" + folder.file("unseen") + "'";
  ASSERT_EQ(
      run_program("dataset build --quiet --synthetic 2 --seed 200001 --seconds 4 --road rural --light day --dry " +
                  std::string("--no-teacher --out ") + roads + model)
          .code,
      0);
  const json seen = evaluated(roads + " --split all" + model);
  const json blank = evaluated(roads + " --split all --blank" + model);
  const double lanes = seen["lane_error_20m"], unseen_lanes = blank["lane_error_20m"];
  EXPECT_LT(lanes, 0.25);
  EXPECT_GT(unseen_lanes, 2 * lanes);
  const double path = seen["model"]["distance"][2], unseen_path = blank["model"]["distance"][2];
  EXPECT_GT(unseen_path, 1.5 * path);
}

}  // namespace dataset_evaluate_test
}  // namespace sparkpilot
