// `sparkpilot drive` compared with tests/reference/drive_pipeline.py, which computes everything again with NumPy:
// pictures, inputs, messages and, if onnxruntime is installed, the networks.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/test_assets.h"
#include "drive_route.h"

namespace sparkpilot {
namespace drive_pipeline_test {
namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFrames = 108;  // more than the networks' history of 100
constexpr uint64_t kStart = 100'000'000'000;

// Events as they may occur in a drive, by seconds since the start: every input of the models changes.
class Day {
 public:
  bool operator()(cereal::Event::Builder event) const {
    const double t = (static_cast<double>(event.getLogMonoTime()) - static_cast<double>(kStart)) * 1e-9;
    const auto within = [t](double from, double to) { return t >= from && t < to; };
    using Kind = cereal::Event::Which;
    switch (event.which()) {
      case Kind::CAR_STATE: {
        auto car = event.getCarState();
        if (within(0, 0.5)) car.setVEgo(0.2F);
        if (within(0.5, 0.8)) car.setVEgo(-0.1F);
        if (within(2, 2.5)) car.setVEgo(0.25F);
        if (within(3, 3.05)) car.setVEgo(std::numeric_limits<float>::quiet_NaN());
        return true;
      }
      case Kind::CAR_PARAMS:
        event.getCarParams().setSteerActuatorDelay(0.13F);
        event.getCarParams().setLongitudinalActuatorDelay(0.25F);
        return true;
      case Kind::LIVE_DELAY: event.getLiveDelay().setLateralDelay(static_cast<float>(0.1 + 0.05 * t)); return t >= 0.7;
      case Kind::DRIVER_MONITORING_STATE: event.getDriverMonitoringState().setIsRHD(t >= 2.2); return true;
      case Kind::LIVE_CALIBRATION: {
        auto rpy = event.getLiveCalibration().getRpyCalib();
        for (unsigned i = 0; i < 3; ++i) rpy.set(i, static_cast<float>(rpy[i] + 0.01 * (i + 1) * std::sin(t)));
        if (within(2, 2.3)) rpy.set(1, std::numeric_limits<float>::quiet_NaN());
        event.setLogMonoTime(event.getLogMonoTime() + 30'000'000);  // during a frame's exposure
        return t >= 0.2;
      }
      case Kind::MODEL_V2: change_lanes(event.getModelV2().getMeta(), within); return true;
      case Kind::ROAD_ENCODE_IDX: lose_frames(event.getRoadEncodeIdx()); return true;
      case Kind::WIDE_ROAD_ENCODE_IDX: {
        auto index = event.getWideRoadEncodeIdx();
        lose_frames(index);
        index.setTimestampSof(index.getTimestampSof() + 6'000'000);
        index.setTimestampEof(index.getTimestampEof() + 6'000'000);
        index.setFrameId(index.getFrameId() + 5000);
        return index.getSegmentId() > 2 && index.getSegmentId() != 50;
      }
      default: return true;
    }
  }

 private:
  template <typename Within>
  static void change_lanes(cereal::ModelDataV2::MetaData::Builder meta, const Within& within) {
    using State = cereal::LaneChangeState;
    using Direction = cereal::LaneChangeDirection;
    const auto set = [&](State state, Direction direction) {
      meta.setLaneChangeState(state);
      meta.setLaneChangeDirection(direction);
    };
    set(State::OFF, Direction::NONE);
    if (within(1, 1.6)) set(State::LANE_CHANGE_STARTING, Direction::LEFT);
    if (within(1.6, 2)) set(State::LANE_CHANGE_FINISHING, Direction::LEFT);
    if (within(2.4, 2.6)) set(State::PRE_LANE_CHANGE, Direction::RIGHT);
    if (within(2.6, 3)) set(State::LANE_CHANGE_STARTING, Direction::RIGHT);
    if (within(3, 3.2)) set(State::LANE_CHANGE_STARTING, Direction::LEFT);
  }

  // Loses two frames before number 70, a dozen before number 90.
  static void lose_frames(cereal::EncodeIndex::Builder index) {
    const uint32_t lost = index.getSegmentId() < 70 ? 0 : index.getSegmentId() < 90 ? 2 : 14;
    index.setFrameId(index.getFrameId() + lost);
    index.setTimestampSof(index.getTimestampSof() + uint64_t{lost} * 50'000'000);
    index.setTimestampEof(index.getTimestampEof() + uint64_t{lost} * 50'000'000);
  }
};

class DrivePipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import numpy' >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 has no numpy";
  }

  static fs::path only_folder(const fs::path& in) { return fs::directory_iterator(in)->path(); }

  // Drives `segment` with the models of an era, and adds it to the case.
  void drive(const fs::path& segment, const std::string& era, const std::vector<std::string>& models) {
    const std::string quoted_models = "'" + folder.file("models") + "'";
    std::string names;
    json files;
    for (const std::string& model : models) {
      names += " " + model;
      files.push_back(folder.file("models/" + model + ".onnx"));
    }
    ASSERT_EQ(run_program("zoo build --quiet" + names + " --out " + quoted_models).code, 0);
    const std::string how = models.size() == 1 ? "--supercombo '" + files[0].get<std::string>() + "'"
                                               : "--vision '" + files[0].get<std::string>() + "' --policy '" +
                                                     files[1].get<std::string>() + "'";
    const fs::path out = folder / ("out_" + era), dump = folder / ("dump_" + era);
    const ProgramResult result =
        run_program("drive '" + segment.string() + "' " + how + " --quiet --raw --no-overlay " + "--dump '" +
                    dump.string() + "' --out '" + out.string() + "' --limit " + std::to_string(limit));
    ASSERT_EQ(result.code, 0) << result.err;
    fs::remove(out / "summary.json");
    fs::remove(out / "summary.html");
    runs.push_back(
        {{"era", era}, {"models", files}, {"out", only_folder(out).string()}, {"dump", only_folder(dump).string()}});
  }

  void expect_equal(const fs::path& segment, bool numbered, bool wide) {
    expect_equal(segment, numbered, {1344, 760}, {{"road", 1141.5}, {"wide", wide ? json(425.25) : json()}});
  }
  void expect_equal(const fs::path& segment, bool numbered, const json& size, const json& cameras) {
    write_text(folder.file("case.json"), json{{"program", SPARKPILOT_PROGRAM},
                                              {"route", segment.string()},
                                              {"size", size},
                                              {"cameras", cameras},
                                              {"numbered", numbered},
                                              {"limit", limit > 0 ? json(limit) : json()},
                                              {"runs", runs}}
                                             .dump());
    const std::string script = "python3 '" SPARKPILOT_SOURCE_DIR "/tests/reference/drive_pipeline.py' '";
    EXPECT_EQ(std::system((script + folder.file("case.json") + "' >&2").c_str()), 0);
  }

  TempFolder folder;
  json runs = json::array();
  int limit = 0;
};

TEST_F(DrivePipeline, EveryEraAsNumpyHasIt) {
  const fs::path segment = make_segment(folder.path(), kFrames);
  edit_log(segment / "rlog.zst", Day());
  // D first: it runs on every frame, so its pictures serve the other eras, too.
  drive(segment, "D", {"tiny_driving_supercombo"});
  drive(segment, "C", {"tiny_driving_vision", "tiny_driving_policy"});
  drive(segment, "B", {"tiny_driving_vision_v0.10.0", "tiny_driving_policy_v0.10.0"});
  drive(segment, "A", {"tiny_supercombo"});
  expect_equal(segment, true, true);
}

TEST_F(DrivePipeline, WithoutAWideCameraTheRoadsPicturesFeedBothInputs) {
  const fs::path segment = make_segment(folder.path(), 8, 0, false);
  drive(segment, "D", {"tiny_driving_supercombo"});
  drive(segment, "C", {"tiny_driving_vision", "tiny_driving_policy"});
  expect_equal(segment, true, false);
}

// A real device's log: openpilot 0.9.4 on a tici, with its small video.
TEST_F(DrivePipeline, TheDemoRoute) {
  const fs::path demo = assets_folder() / "route_demo";
  if (!fs::exists(demo)) GTEST_SKIP() << "there is no " << demo.string();
  limit = 45;
  drive(demo, "A", {"tiny_supercombo"});
  drive(demo, "D", {"tiny_driving_supercombo"});
  expect_equal(demo, false, {1928, 1208}, {{"road", 2648}, {"wide", nullptr}});
}

TEST_F(DrivePipeline, PicturesOfFullSize) {
  const ProgramResult made =
      run_program("route synth --quiet --device mici --seed 5 --seconds 0.4 --out '" + folder.file("routes") + "'");
  ASSERT_EQ(made.code, 0) << made.err;
  const fs::path segment = fs::directory_iterator(folder.file("routes"))->path();
  drive(segment, "C", {"tiny_driving_vision", "tiny_driving_policy"});
  drive(segment, "D", {"tiny_driving_supercombo"});
  expect_equal(segment, false, true);
}

}  // namespace drive_pipeline_test
}  // namespace sparkpilot
