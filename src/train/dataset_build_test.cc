// Whole data sets, made of hand-made and synthetic routes by the tiny models: what is read is what the networks were
// given.
#include "train/dataset_build.h"

#include <cmath>
#include <cstring>
#include <map>

#include "base/fnv.h"
#include "drive/driver_model.h"
#include "drive/test_route.h"
#include "route/contract/frame.h"
#include "train/dataset.h"
#include "train/dataset_folder.h"
#include "train/dataset_labels.h"
#include "train/test_dataset.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;
using drive::kFrameBytes;

constexpr int kFirst = 150, kSecond = 30;  // frames of the two segments

// The files of a data set and their hashes, without the lock.
std::map<std::string, uint64_t> contents(const fs::path& folder) {
  std::map<std::string, uint64_t> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".")) out[name] = Fnv().text(read_text(entry.path())).value();
  }
  return out;
}

class Build : public drive::DriveTest {
 protected:
  void SetUp() override {
    DriveTest::SetUp();
    build_.models = options_.models;
    build_.threads = 1;
    build_.focal_length = options_.focal_length;
    build_.validation = 0;
    build_.min_speed = 0;
    build_.every = 1;
    build_.out = folder_ / "data";
    build_.note = [this](const std::string& text) { notes_.push_back(text); };
  }

  // Two segments: lane changes that are held, that follow one another and that begin in a lost frame; lost frames; a
  // right-hand drive for a while; the driver overrides from frame 120 to 129; standing still from 130 to 139.
  static int id_of(int index, bool lost) {
    return index + (lost && index >= 60 ? 3 : 0) + (lost && index >= 161 ? 1 : 0);
  }
  void write_route(bool lost = true) const {
    const auto event = [](drive::LogWriter& writer, uint64_t time, auto&& fill) {
      capnp::MallocMessageBuilder message;
      auto root = message.initRoot<cereal::Event>();
      root.setLogMonoTime(time);
      fill(root);
      writer.write(message);
    };
    for (int number = 0; number < 2; ++number) {
      const int count = number == 0 ? kFirst : kSecond;
      write_video(segment(number) / "fcamera.hevc", count, number * kFirst);
      drive::LogWriter writer(segment(number) / "rlog.zst");
      if (number == 0) {
        event(writer, drive::kStart, [](cereal::Event::Builder e) { e.initLiveCalibration().initRpyCalib(3); });
      }
      for (int i = 0; i < count; ++i) {
        const int index = number * kFirst + i, id = id_of(index, lost);
        const uint64_t eof = drive::kStart + drive::kFrame * static_cast<uint64_t>(id + 1);
        event(writer, eof, [&](cereal::Event::Builder e) {
          auto mark = e.initRoadEncodeIdx();
          mark.setFrameId(static_cast<uint32_t>(id));
          mark.setSegmentId(static_cast<uint32_t>(i));
          mark.setTimestampSof(eof - 10'000'000);
          mark.setTimestampEof(eof);
        });
        event(writer, eof, [&](cereal::Event::Builder e) {
          auto car = e.initCarState();
          car.setVEgo(index >= 130 && index < 140 ? 0 : 10 + 0.1F * static_cast<float>(index));
          car.setBrakePressed(index >= 120 && index < 130);
        });
        event(writer, eof, [&](cereal::Event::Builder e) {
          using State = cereal::LaneChangeState;
          using Direction = cereal::LaneChangeDirection;
          const bool left = (index >= 3 && index < 9) || (index >= 33 && index < 40) || (index >= 60 && index < 66);
          const bool right = (index >= 30 && index < 33) || (index >= 145 && index < 155);
          auto meta = e.initModelV2().initMeta();
          meta.setLaneChangeState(left || right ? State::LANE_CHANGE_STARTING : State::OFF);
          meta.setLaneChangeDirection(left ? Direction::LEFT : right ? Direction::RIGHT : Direction::NONE);
        });
        event(writer, eof, [&](cereal::Event::Builder e) { e.initDriverMonitoringState().setIsRHD(index % 40 >= 30); });
      }
      writer.commit();
    }
  }

  std::vector<drive::Route> routes() const { return {drive::find_route((folder_ / "route").string())}; }

  // What the networks were given and gave, frame by frame, in a drive.
  struct Seen {
    std::map<std::string, std::vector<float>> inputs;
    std::map<std::string, bool> half;  // the input has 16 bits
    std::vector<float> raw;
  };
  std::vector<Seen> driven() {
    std::vector<Seen> out;
    options_.overlay = false;
    options_.models = build_.models;
    options_.stepped = [&](drive::DrivingModel& model) {
      Seen& seen = out.emplace_back();
      for (const auto& [network, name, value] : model.inputs()) {
        std::vector<float>& numbers = seen.inputs[name];
        const int64_t count = value.elements();
        numbers.resize(static_cast<size_t>(count));
        float* to = numbers.data();
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(load_element(value.dtype, value.data, i));
        seen.half[name] = value.dtype == DType::f16;
      }
      seen.raw.assign(model.raw().begin(), model.raw().end());
    };
    drive();
    fs::remove_all(options_.out);
    return out;
  }

  static void expect_same(const Dataset& data, int64_t sample, const Seen& seen) {
    const auto blocks = read_sample(data, sample);
    std::vector<float> raw;
    size_t compared = 0;
    for (size_t f = 0; f < blocks.size(); ++f) {
      const Field& field = data.fields()[f];
      std::vector<float> values = as_floats(blocks[f], field);
      if (field.name.starts_with("teacher.")) raw.insert(raw.end(), values.begin(), values.end());
      const auto found = seen.inputs.find(field.name);
      if (found == seen.inputs.end()) continue;
      if (seen.half.at(field.name)) {
        for (float& value : values) value = static_cast<float>(Half(value));
      }
      EXPECT_EQ(values, found->second) << "sample " << sample << ", " << field.name;
      ++compared;
    }
    EXPECT_EQ(compared, seen.inputs.size());
    std::vector<float> rounded = seen.raw;
    for (float& value : rounded) value = static_cast<float>(Half(value));
    EXPECT_EQ(raw, rounded) << "sample " << sample;
  }

  std::string refusal(const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
      return error.what();
    }
    return "done";
  }

  BuildOptions build_;
};

using drive::kPlanWidth, drive::kPoints;

// Every era: pictures, desires, features of the past, curvatures, numbers; across lost frames and segments.
TEST_F(Build, GivesWhatTheNetworksWereGiven) {
  write_route();
  const std::vector<std::vector<const char*>> eras = {{"tiny_supercombo"},
                                                      {"tiny_driving_vision_v0.10.0", "tiny_driving_policy_v0.10.0"},
                                                      {"tiny_driving_vision", "tiny_driving_policy"},
                                                      {"tiny_driving_supercombo"}};
  for (const auto& names : eras) {
    SCOPED_TRACE(names[0]);
    for (const char* name : names) save_onnx(build_zoo_model(name), folder_ / (std::string(name) + ".onnx"));
    build_.models = {};
    if (names.size() == 2) {
      build_.models.vision = folder_ / (std::string(names[0]) + ".onnx");
      build_.models.policy = folder_ / (std::string(names[1]) + ".onnx");
    } else {
      build_.models.supercombo = folder_ / (std::string(names[0]) + ".onnx");
    }
    const std::vector<Seen> seen = driven();
    build_.keep_overridden = true;
    build_.out = folder_ / "data";
    fs::remove_all(build_.out);
    const BuildResult result = build_dataset(routes(), build_);
    EXPECT_EQ(result.counts.frames, kFirst + kSecond);
    EXPECT_EQ(result.counts.samples, std::ssize(seen));
    const Dataset data(build_.out);
    ASSERT_EQ(data.size(), std::ssize(seen));
    EXPECT_EQ(data.info().contract.era == 'D' ? 0 : 2,
              result.counts.left_out.empty() ? 0 : result.counts.left_out.at("frames lost before it"));
    for (int64_t i = 0; i < data.size(); ++i) {
      expect_same(data, i, seen[static_cast<size_t>(i)]);
      if (HasFailure()) return;
    }
    data.check();
    EXPECT_LE(data.clips()[0].bytes / kFirst * 1200, 500'000'000) << "of a minute, with every frame";
  }
}

// With every fourth frame the teacher need not run on the others, unless frames were lost: samples are the same.
TEST_F(Build, GivesTheSameWhereTheTeacherRunsOnFewerFrames) {
  save_onnx(build_zoo_model("tiny_driving_supercombo"), folder_ / "merged.onnx");
  for (const bool merged : {false, true}) {
    const bool lost = merged;
    if (merged) build_.models = {.supercombo = folder_ / "merged.onnx"};
    SCOPED_TRACE(fmt::format("{}, {}", merged ? "one network" : "two", lost ? "frames lost" : "none lost"));
    write_route(lost);
    const std::vector<Seen> seen = driven();
    std::map<int64_t, const Seen*> by_id;  // two networks do not run behind lost frames
    for (int index = 0, at = 0; index < kFirst + kSecond; ++index) {
      const bool ran = merged || !lost || (index != 60 && index != 161);
      if (ran) by_id[id_of(index, lost)] = &seen.at(static_cast<size_t>(at++));
    }
    build_.keep_overridden = true;
    build_.every = 4;
    build_.out = folder_ / "data";
    fs::remove_all(build_.out);
    build_dataset(routes(), build_);
    const Dataset data(build_.out);
    EXPECT_GT(data.size(), (kFirst + kSecond) / 4 - 3);
    for (int64_t i = 0; i < data.size(); ++i) {
      expect_same(data, i, *by_id.at(data.frame_id(i)));
      if (HasFailure()) return;
    }
    const SafetensorsReader rows(rows_file(build_.out, data.clips()[0].name));
    std::vector<std::byte> features(static_cast<size_t>(storage_bytes(rows.find("features")->dtype, drive::kFeatures)));
    rows.read("features", 41, 1, features.data());
    EXPECT_EQ(std::ranges::any_of(features, [](std::byte b) { return b != std::byte{0}; }), lost);
  }
}

// Only every Nth frame's pictures are kept, and the memory of a sample is all the same complete.
TEST_F(Build, TheDriversFramesAreWhatTheModelWasGiven) {
  write_video(segment(0) / "dcamera.hevc", 6);
  write_video(segment(0) / "fcamera.hevc", 6);
  write_log(0, frames(3, 6), true);
  options_.models.driver_monitoring = folder_ / "tiny_dmonitoring_model.onnx";
  options_.focal_length.reset();
  options_.raw = true;
  drive();
  std::map<int64_t, std::vector<float>> raw;  // by frame
  drive::LogReader log(out(0) / "rlog.zst");
  while (log.next()) {
    if (!log.event().isDriverStateV2()) continue;
    const auto state = log.event().getDriverStateV2();
    std::vector<float>& values = raw[state.getFrameId()];
    values.resize(state.getRawPredictions().size() / sizeof(float));
    std::memcpy(values.data(), state.getRawPredictions().begin(), values.size() * sizeof(float));
  }
  ASSERT_EQ(raw.size(), 6u);

  BuildOptions options = build_;
  options.models = {.driver_monitoring = options_.models.driver_monitoring};
  options.focal_length.reset();
  options.every = 2;
  options.threads = 1;
  const BuildResult result = build_driver_dataset(routes(), options);
  EXPECT_EQ(result.counts.samples, 3);
  EXPECT_EQ(result.counts.pictures, 3);
  const Dataset data(build_.out);
  data.check();
  ASSERT_EQ(data.size(), 3);
  drive::DriverModel model(options.models.driver_monitoring, {.threads = 1});
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto blocks = read_sample(data, i);
    const std::vector<float> calibration = as_floats(blocks[1], data.fields()[1]);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(blocks[0].data());
    model.step({bytes, blocks[0].size()}, {calibration[0], calibration[1], calibration[2]});
    std::vector<float> expected = raw.at(data.frame_id(i));
    EXPECT_EQ(std::vector<float>(model.raw().begin(), model.raw().end()), expected) << i;
    for (float& value : expected) value = static_cast<float>(Half(value));
    EXPECT_EQ(as_floats(blocks[2], data.fields()[2]), expected) << i;
  }
  EXPECT_EQ(data.past(0), std::vector<int64_t>());
  // Grey pictures, and other brightness; nothing else changes.
  const Dataset blank(build_.out, {.blank = true}), bright(build_.out, {.augment = {.brightness = 0.5, .seed = 3}});
  const auto same = read_sample(data, 1), grey = read_sample(blank, 1), other = read_sample(bright, 1);
  EXPECT_EQ(grey[0], std::vector<std::byte>(drive::kDriverFrameBytes, std::byte{128}));
  EXPECT_NE(other[0], same[0]);
  EXPECT_EQ(other[1], same[1]);
  EXPECT_EQ(other[2], same[2]);
  // A data set of a driving model is another thing.
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }).find("another model"), std::string::npos);
}

TEST_F(Build, KeepsOnlyThePicturesThatSamplesNeed) {
  write_route();
  build_.keep_overridden = true;
  const BuildResult all = build_dataset(routes(), build_);
  const Dataset whole(build_.out);
  std::map<int64_t, int64_t> by_frame;
  for (int64_t i = 0; i < whole.size(); ++i) by_frame[whole.frame_id(i)] = i;
  for (const int every : {4, 7}) {
    build_.every = every;
    build_.out = folder_ / fmt::format("every{}", every);
    const BuildResult result = build_dataset(routes(), build_);
    const Dataset data(build_.out);
    EXPECT_EQ(data.size(), result.counts.samples);
    EXPECT_GT(data.size(), (kFirst + kSecond) / every - 3);
    EXPECT_LT(result.counts.pictures, every == 4 ? all.counts.pictures / 3 : 2 * data.size() + 1);
    for (int64_t i = 0; i < data.size(); ++i) {
      EXPECT_EQ(data.frame_id(i) % every, 0);
      EXPECT_EQ(read_sample(data, i), read_sample(whole, by_frame.at(data.frame_id(i)))) << data.frame_id(i);
    }
  }
}

TEST_F(Build, LeavesOutWhatAFilterRefuses) {
  write_route();
  build_.min_speed = 1;
  const BuildResult result = build_dataset(routes(), build_);
  EXPECT_EQ(result.counts.left_out, (LeftOut{{"frames lost before it", 2}, {"overridden", 10}, {"slow", 10}}));
  EXPECT_EQ(result.counts.samples, kFirst + kSecond - 22);
  const Dataset data(build_.out);
  EXPECT_EQ(data.clips()[0].left_out, (LeftOut{{"frames lost before it", 1}, {"overridden", 10}, {"slow", 10}}));
}

// A build that was stopped in the second segment, and continues, gives the same bytes as one that was not: also where
// it must drive the first segment's end again to know the state.
TEST_F(Build, ContinuesWhereItWasStopped) {
  write_route();
  build_dataset(routes(), build_);
  const auto whole = contents(build_.out);
  ASSERT_EQ(whole.size(), 5u);
  build_.out = folder_ / "stopped";
  std::atomic<bool> stop = false;
  build_.stop = &stop;
  int frames_of_second = 0;
  build_.progress = [&](const BuildProgress& p) { stop = stop || (p.clips == 1 && ++frames_of_second == kSecond / 2); };
  const BuildResult first = build_dataset(routes(), build_);
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(first.made, 1);
  EXPECT_EQ(contents(build_.out).size(), 3u) << "nothing of the clip at work";
  build_.stop = nullptr;
  const BuildResult second = build_dataset(routes(), build_);
  EXPECT_EQ(second.kept, 1);
  EXPECT_EQ(second.made, 1);
  EXPECT_EQ(contents(build_.out), whole);
  const BuildResult third = build_dataset(routes(), build_);
  EXPECT_EQ(third.made, 0);
  EXPECT_EQ(third.counts.bytes, second.counts.bytes);
}

TEST_F(Build, HoldsToTheLimitOfBytes) {
  write_route();
  build_.every = 4;
  build_.limit = 40;
  build_.max_bytes = 6'000'000;
  const BuildResult result = build_dataset(routes(), build_);
  EXPECT_EQ(result.made, 1);
  EXPECT_EQ(result.not_begun, 1);
  EXPECT_LE(result.counts.bytes, build_.max_bytes);
  const auto said = [&](const std::string& part) {
    return std::any_of(notes_.begin(), notes_.end(), [&](const auto& n) { return n.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(said("of the disk are free")) << "before it begins";
  EXPECT_TRUE(said("1 clip not made: --max-bytes is reached"));
}

TEST_F(Build, RefusesAnotherTeacherOrOtherOptions) {
  write_route();
  build_.limit = 5;
  build_dataset(routes(), build_);
  build_.min_speed = 2;
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }).find("holds a data set of other options"),
            std::string::npos);
  build_.min_speed = 0;
  build_.every = 2;
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }).find(", every 1 frame, with a teacher), this one is"),
            std::string::npos);
  build_.every = 1;
  save_onnx(build_zoo_model("tiny_driving_policy", 2), build_.models.policy);
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }).find("holds a data set of another model"),
            std::string::npos);
  build_.out = folder_.path();
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }).find("holds other files"), std::string::npos);
  build_.teacher = false;
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }).find("a teacher must run"), std::string::npos);
}

TEST_F(Build, SaysWhatCannotBeDriven) {
  write_route();
  fs::remove(segment(1) / "fcamera.hevc");
  build_.limit = 5;
  const BuildResult result = build_dataset(routes(), build_);
  EXPECT_EQ(result.made, 1);
  ASSERT_EQ(result.cannot_drive.size(), 1u);
  // Damaged poses of comma2k19 beside a log: samples without a driven path.
  write_text(segment(0) / "global_pose" / "frame_times", "damaged");
  build_.out = folder_ / "posed";
  EXPECT_EQ(build_dataset(routes(), build_).made, 1);
  EXPECT_TRUE(std::ranges::any_of(notes_, [](const auto& note) {
    return note.find("frame_times") != note.npos && note.find("no driven path") != note.npos;
  }));
  fs::remove(segment(0) / "fcamera.hevc");
  build_.out = folder_ / "none";
  EXPECT_NE(refusal([&] { build_dataset(routes(), build_); }), "done");
}

// ---------------------------------------------------------------- synthetic roads
class BuildSynthetic : public Build {
 protected:
  void SetUp() override {
    Build::SetUp();
    build_.teacher = false;
    roads_.seed = 4;
    roads_.routes = 2;
    roads_.seconds = 1;
    build_.every = 5;
  }
  SyntheticOptions roads_;
};

TEST_F(BuildSynthetic, PicturesAreTheRoads) {
  const BuildResult result = build_synthetic_dataset(roads_, build_);
  EXPECT_EQ(result.counts.samples, 8);
  EXPECT_EQ(result.counts.pictures, 14) << "two a sample, but nothing is before the first of each route";
  const Dataset data(build_.out);
  drive::SynthOptions options;
  options.seed = 5, options.seconds = 1;
  const drive::SynthDrive road(options);
  const auto blocks = read_sample(data, 6);  // the third sample of the second route
  EXPECT_EQ(data.frame_id(6), 10);
  drive::YuvImage scratch;
  std::vector<uint8_t> frame(kFrameBytes);
  for (const bool big : {false, true}) {
    for (const int64_t age : {4, 0}) {
      road.draw_model_frame(10 - age, big, scratch, frame);
      EXPECT_EQ(std::memcmp(blocks[big ? 1 : 0].data() + (age == 0 ? kFrameBytes : 0), frame.data(), kFrameBytes), 0);
    }
  }
}

// Another network of the same inputs and outputs goes on with data that no network answered.
TEST_F(BuildSynthetic, WithoutATeacherWeightsDoNotMatter) {
  for (const uint64_t seed : {1, 2}) {
    fs::create_directories(folder_ / std::to_string(seed));
    save_onnx(build_zoo_model("tiny_driving_supercombo", seed), folder_ / std::to_string(seed) / "model.onnx");
  }
  build_.models = {.supercombo = folder_ / "1/model.onnx"};
  EXPECT_EQ(build_synthetic_dataset(roads_, build_).made, 2);
  build_.models = {.supercombo = folder_ / "2/model.onnx"};
  EXPECT_EQ(build_synthetic_dataset(roads_, build_).kept, 2);
  build_.teacher = true;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }), "");
}

TEST_F(BuildSynthetic, BeginsAfterASecondsPart) {
  roads_.after = 0.2;
  const BuildResult result = build_synthetic_dataset(roads_, build_);
  EXPECT_EQ(result.counts.samples, 6);
  const Dataset data(build_.out);
  EXPECT_EQ(data.frame_id(0), 5);
  EXPECT_EQ(data.frame_id(3), 5) << "of the second route";
  roads_.after = 1;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("less than these"), std::string::npos);
}

// Road kinds take turns, and the seeds go on as without.
TEST_F(BuildSynthetic, KindsOfRoadsTakeTurns) {
  roads_.roads = {drive::synth::RoadKind::winding, drive::synth::RoadKind::city};
  build_synthetic_dataset(roads_, build_);
  const Dataset data(build_.out);
  drive::YuvImage scratch;
  std::vector<uint8_t> frame(kFrameBytes);
  for (const int64_t route : {0, 1}) {
    drive::SynthOptions options;
    options.seed = static_cast<uint64_t>(4 + route), options.seconds = 1;
    options.road = roads_.roads[static_cast<size_t>(route)];
    drive::SynthDrive(options).draw_model_frame(10, false, scratch, frame);
    const auto blocks = read_sample(data, 4 * route + 2);
    EXPECT_EQ(std::memcmp(blocks[0].data() + kFrameBytes, frame.data(), kFrameBytes), 0) << route;
  }
  std::swap(roads_.roads[0], roads_.roads[1]);
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("other options"), std::string::npos);
}

// A share of the roads has other cars, which stand in the pictures and nowhere else.
TEST_F(BuildSynthetic, AShareOfTheRoadsHasTraffic) {
  roads_.seed = 7, roads_.routes = 3,
  roads_.traffic = 0.4;  // the fractions of 7, 8 and 9 golden ratios: 0.33, 0.94, 0.56
  build_synthetic_dataset(roads_, build_);
  const Dataset data(build_.out);
  drive::YuvImage scratch;
  std::vector<uint8_t> frame(kFrameBytes);
  for (const int64_t route : {0, 1, 2}) {
    const auto blocks = read_sample(data, 4 * route + 2);
    for (const bool traffic : {true, false}) {
      drive::SynthOptions options;
      options.seed = static_cast<uint64_t>(7 + route), options.seconds = 1, options.traffic = traffic;
      drive::SynthDrive(options).draw_model_frame(10, false, scratch, frame);
      const bool same = std::memcmp(blocks[0].data() + kFrameBytes, frame.data(), kFrameBytes) == 0;
      EXPECT_EQ(same, traffic == (route == 0)) << route;
    }
  }
  roads_.traffic = 0.5;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("other options"), std::string::npos);
  roads_.traffic = 1.5;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("expected 0 to 1"), std::string::npos);
}

TEST_F(BuildSynthetic, LabelsAreTheTruthInTheModelsForm) {
  build_synthetic_dataset(roads_, build_);
  const Dataset data(build_.out);
  drive::SynthOptions options;
  options.seed = 4, options.seconds = 1;
  const drive::SynthDrive road(options);
  const auto truth = drive::synth::frame_truth(road.world(), 0.75);
  const auto blocks = read_sample(data, 3);
  drive::ModelOutputs outputs;
  for (size_t f = 0; f < blocks.size(); ++f) {
    const Field& field = data.fields()[f];
    if (!field.name.starts_with("labels.")) continue;
    const DatasetNetwork& network = *data.info().network(field.name.substr(7));
    OutputSlices slices;
    for (const DatasetHead& head : network.heads) slices.emplace_back(head.name, OutputSlice{head.begin, head.end});
    drive::OutputParser(slices, network.width, network.role).parse(as_floats(blocks[f], field), outputs);
  }
  for (size_t i = 0; i < kPoints; ++i) {
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(outputs.plan.mean[i * kPlanWidth + k], static_cast<float>(truth.plan[i].position[k]));
      EXPECT_EQ(outputs.plan.mean[i * kPlanWidth + 9 + k], static_cast<float>(truth.plan[i].orientation[k]));
    }
    for (size_t line = 0; line < 4; ++line)
      EXPECT_EQ(outputs.lane_lines.mean[(line * kPoints + i) * 2], static_cast<float>(truth.lane_lines[line][i][1]));
    for (size_t edge = 0; edge < 2; ++edge)
      EXPECT_EQ(outputs.road_edges.mean[(edge * kPoints + i) * 2 + 1],
                static_cast<float>(truth.road_edges[edge][i][2]));
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(outputs.lane_line_probs[i], truth.lane_line_probs[i], 1e-6);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(outputs.lead_probs[i], truth.leads[i].prob, 1e-6);
    EXPECT_EQ(outputs.leads.mean[i * 24], static_cast<float>(truth.leads[i].x[0]));
  }
  EXPECT_NEAR(outputs.desire_state[0], 0.993, 1e-5);
  EXPECT_NEAR(outputs.meta.engaged, 0.99, 1e-6);
  EXPECT_NEAR(outputs.meta.hard_brake_3[2], 0.01, 1e-6);
  EXPECT_EQ(outputs.pose.mean[0], static_cast<float>(truth.pose.speed));
  EXPECT_EQ(outputs.road_transform.mean[2], 1.22F);
  const auto driven = as_floats(blocks[blocks.size() - 3], data.fields()[blocks.size() - 3]);
  EXPECT_TRUE(std::equal(driven.begin(), driven.end(), outputs.plan.mean.begin()));
}

// Features of the past and outputs are the teacher's, as if it drove; with every fourth frame or every eighth it need
// not run on the frames between.
TEST_F(BuildSynthetic, ATeacherMayAnswerBesides) {
  build_.teacher = true;
  roads_.routes = 1;
  roads_.seconds = 2;
  drive::SynthOptions options;
  options.seed = 4, options.seconds = 2;
  const drive::SynthDrive road(options);
  std::vector<std::vector<uint8_t>> frames;
  drive::YuvImage scratch;
  for (int64_t i = 0; i < road.frames(); ++i) {
    frames.emplace_back(2 * size_t{kFrameBytes});
    road.draw_model_frame(i, false, scratch, std::span(frames.back()).first(kFrameBytes));
    road.draw_model_frame(i, true, scratch, std::span(frames.back()).subspan(kFrameBytes));
  }
  save_onnx(build_zoo_model("tiny_driving_supercombo"), folder_ / "merged.onnx");
  for (const auto& [every, merged] : {std::pair{5, false}, {4, false}, {4, true}, {8, true}}) {
    SCOPED_TRACE(fmt::format("every {}, {}", every, merged ? "one network" : "two"));
    build_.every = every;
    build_.out = folder_ / fmt::format("roads_{}_{}", every, merged);
    if (merged) build_.models = {.supercombo = folder_ / "merged.onnx"};
    build_synthetic_dataset(roads_, build_);
    const Dataset data(build_.out);
    const int64_t sample = 34 / every;
    const auto blocks = read_sample(data, sample);
    const auto fields = data.fields();
    drive::FrameInputs inputs;
    for (size_t f = 0; f < blocks.size(); ++f) {
      if (fields[f].name != "action_t") continue;
      const auto times = as_floats(blocks[f], fields[f]);
      inputs.action_times = {times[0], times[1]};
    }
    drive::DrivingModel model(build_.models, {});
    for (int64_t i = 0; i <= sample * every; ++i) {
      const std::span<const uint8_t> both = frames[static_cast<size_t>(i)];
      inputs.road = both.first(kFrameBytes), inputs.wide = both.subspan(kFrameBytes);
      model.step(inputs);
    }
    std::vector<float> raw, past;
    for (size_t f = 0; f < blocks.size(); ++f) {
      if (fields[f].name == "features_buffer") past = as_floats(blocks[f], fields[f]);
      if (!fields[f].name.starts_with("teacher.")) continue;
      const auto values = as_floats(blocks[f], fields[f]);
      raw.insert(raw.end(), values.begin(), values.end());
    }
    const auto expect_near = [](std::span<const float> got, std::span<const float> expected, double most) {
      ASSERT_EQ(got.size(), expected.size());
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::fabs(1.0 * got[i] - expected[i]));
      EXPECT_LT(worst, most) << "rounded to 16 bits, and the number of threads may change the last bits";
    };
    expect_near(raw, model.raw(), 0.02);
    for (const auto& input : model.inputs()) {
      if (input.name != "features_buffer") continue;
      expect_near(past, {input.value.as<float>(), static_cast<size_t>(input.value.elements())}, 1e-3);
    }
    EXPECT_GT(std::ranges::count_if(past, [](float v) { return v != 0; }), 5 * int64_t{drive::kFeatures});
  }
}

// Of labels only what is not zero in all samples is stored, so a minute of the widest outputs, with a teacher's and
// with every frame, takes less than 500 MB.
TEST_F(BuildSynthetic, AMinuteTakesLessThanHalfAGigabyte) {
  save_onnx(build_zoo_model("tiny_supercombo"), folder_ / "wide.onnx");
  build_.models = {};
  build_.models.supercombo = folder_ / "wide.onnx";
  build_.teacher = true;
  build_.every = 1;
  roads_.routes = 1;
  roads_.seconds = 2;
  const BuildResult result = build_synthetic_dataset(roads_, build_);
  ASSERT_EQ(result.counts.samples, 40);
  EXPECT_LE(result.counts.bytes / 40 * 1200, 500'000'000);
  const SafetensorsReader rows(rows_file(build_.out, Dataset(build_.out).clips()[0].name));
  const auto* const kept = rows.find("labels.supercombo.columns");
  ASSERT_NE(kept, nullptr);
  EXPECT_LT(kept->rows(), 1300);
  EXPECT_EQ(rows.find("labels.supercombo")->shape, (Shape{40, kept->rows()}));
  // 20.2 kB a row, without pictures and the headers of both files.
  EXPECT_LT(static_cast<int64_t>(fs::file_size(rows.path())) / 40, 21'500);
}

// More routes later; which are for validation does not change.
TEST_F(BuildSynthetic, TakesMoreRoutesLater) {
  build_.validation = 0.4;
  build_synthetic_dataset(roads_, build_);
  const auto before = load_dataset_info(build_.out).routes;
  roads_.routes = 5;
  const BuildResult result = build_synthetic_dataset(roads_, build_);
  EXPECT_EQ(result.kept, 2);
  EXPECT_EQ(result.made, 3);
  std::vector<bool> validation;
  for (const DatasetRoute& route : result.info.routes) validation.push_back(route.validation);
  EXPECT_EQ(validation, (std::vector<bool>{false, false, true, false, true}));
  EXPECT_EQ(before[1].validation, false);
  EXPECT_EQ(Dataset(build_.out, {.split = Split::validation}).size(), 8);
}

// The path that a synthetic log's poses give is the one that is true.
TEST_F(BuildSynthetic, DrivenPathsOfLogsAreTheTruth) {
  drive::SynthOptions options;
  options.seed = 7, options.seconds = 14, options.device = "mici";
  options.road_video = options.wide = options.qcamera = false;
  const drive::SynthRoute route = drive::synth_route(folder_ / "synth", options);
  const drive::Timeline log = drive::read_timeline(route.segments[0].folder / "rlog.zst");
  const auto path = drive::DrivenPath::from(log);
  ASSERT_TRUE(path);
  const auto truth = drive::synth::frame_truth(drive::SynthDrive(options).world(), 3);
  Targets targets, expected;
  take_driven(*path, drive::kStart + 3'000'000'000, targets);
  take_driven(truth, expected);
  EXPECT_EQ(targets.valid, expected.valid);
  const double tolerance[kPlanWidth] = {0.3, 0.15, 0.3,  0.1,  0.05, 0.05, 0.3, 0.3,
                                        0.5, 0.02, 0.05, 0.02, 0.02, 0.05, 0.02};
  for (size_t i = 0; i < kPoints; ++i) {
    for (size_t k = 0; k < kPlanWidth; ++k)
      EXPECT_NEAR(targets.plan[i * kPlanWidth + k], expected.plan[i * kPlanWidth + k], tolerance[k]) << i << " " << k;
  }
  take_driven(*path, drive::kStart + 9'000'000'000, targets);
  EXPECT_EQ(targets.valid[20], 1);
  EXPECT_EQ(targets.valid[32], 0) << "the log ends before";
  EXPECT_EQ(targets.plan[32 * kPlanWidth], 0);
}

TEST_F(BuildSynthetic, RefusesWhatCannotBe) {
  roads_.routes = 0;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("0 synthetic routes"), std::string::npos);
  roads_.routes = 1;
  roads_.seconds = 0;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("of 0 seconds"), std::string::npos);
  roads_.seconds = 1;
  build_.every = 0;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("every 0 frames"), std::string::npos);
  build_.every = 1;
  build_.validation = 1;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("for validation"), std::string::npos);
  build_.validation = 0;
  roads_.routes = 1000;
  roads_.seconds = 3600;
  EXPECT_NE(refusal([&] { build_synthetic_dataset(roads_, build_); }).find("of the disk are free"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::train
