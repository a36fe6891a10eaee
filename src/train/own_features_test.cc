// Features of the past that the student computes.
#include "train/own_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/test_error.h"
#include "base/test_files.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "runtime/session.h"
#include "train/first_samples.h"
#include "train/test_dataset.h"

namespace sparkpilot::train {
namespace own_features_test {

namespace fs = std::filesystem;

class OwnFeaturesTest : public ::testing::Test {
 protected:
  OwnFeaturesTest() {
    for (const char* role : {"vision", "policy"}) {
      const fs::path file = folder_ / (std::string("driving_") + role + ".onnx");
      save_onnx(build_zoo_model(std::string("tiny_driving_") + role), file);
      networks_.push_back({role, file});
    }
    fs::create_directories(folder_ / "data");
    info_ = small_info();
    info_.every = 4;
    info_.networks[0].width = 1576;
    info_.networks[1].width = 1000;
    save_dataset_info(folder_ / "data", info_);
  }

  // Frames of a route from `first` on; every fourth is a sample, but for `left_out`.
  void write(const std::string& clip, ClipWriter& writer, int64_t first, int64_t frames, int64_t left_out = -1) {
    writer.begin(folder_ / "data", clip, "dongle|log");
    for (int64_t i = first; i < first + frames; ++i) {
      const Targets targets = small_targets(info_, i);
      const bool sample = writer.is_due(i) && i != left_out;
      writer.add(small_step(i), sample ? &targets : nullptr, i == left_out ? "left out" : "");
    }
    writer.commit();
  }

  StudentOptions options(int64_t batch) {
    StudentOptions out{.networks = networks_, .batch = batch};
    out.adapter = {.kind = AdapterKind::lora, .rank = 1};
    return out;
  }

  // The features that the vision file makes of a sample's pictures.
  std::vector<float> expected(const Dataset& data, int64_t index) {
    Session session(load_onnx(networks_[0].file), {.threads = 1, .passes = {.precision = Precision::fp32}});
    const auto sample = read_sample(data, index);
    for (const char* input : {"img", "big_img"}) {
      const auto at =
          static_cast<size_t>(std::ranges::find(data.fields(), input, &Field::name) - data.fields().begin());
      const Field& field = data.fields()[at];
      Tensor value(field.dtype, field.shape.inserted(0, 1));
      std::memcpy(value.raw(), sample[at].data(), sample[at].size());
      session.set_input(input, convert(value, DType::u8).view());
    }
    session.run();
    const ConstView view = session.output(session.outputs()[0].name);
    Tensor raw(view.dtype, view.shape);
    std::memcpy(raw.raw(), view.data, static_cast<size_t>(view.bytes()));
    const Tensor all = convert(raw, DType::f32);
    const OutputSlices slices = output_slices(load_onnx(networks_[0].file));
    const auto hidden = std::ranges::find(slices, "hidden_state", [](const auto& each) { return each.first; });
    const auto [begin, end] = hidden->second.resolve(all.shape()[1]);
    return {all.data<float>().begin() + begin, all.data<float>().begin() + end};
  }

  static std::vector<float> features(const Samples& samples, int64_t index) {
    const auto sample = read_sample(samples, index);
    const auto at = std::ranges::find(samples.fields(), "features_buffer", &Field::name) - samples.fields().begin();
    return as_floats(sample[static_cast<size_t>(at)], samples.fields()[static_cast<size_t>(at)]);
  }

  // Whether a row of a features_buffer holds these features, as far as 16 bits in the file go.
  static bool holds(const std::vector<float>& buffer, size_t row, const std::vector<float>& wanted) {
    double apart = 0, size = 1e-12;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double d = buffer[row * drive::kFeatures + i] - wanted[i];
      apart += d * d;
      size += double{wanted[i]} * wanted[i];
    }
    return apart <= 1e-5 * size;
  }

  TempFolder folder_;
  std::vector<StudentNetwork> networks_;
  DatasetInfo info_;
};

TEST_F(OwnFeaturesTest, AreThoseOfTheStudentsPicturesAcrossClips) {
  {
    ClipWriter writer(info_);
    write("log--0", writer, 0, 20);
    write("log--1", writer, 20, 20);
  }
  const Dataset data(folder_ / "data");
  ASSERT_EQ(data.size(), 10);
  const Student student(options(3), data.fields());
  EXPECT_EQ(OwnFeatures::refusal(data.info(), student), "");
  TrainingProgram program = student.program({.session = {.threads = 1}});
  OwnFeatures own(data, data, student);
  EXPECT_EQ(own.complete().size(), 10u);
  EXPECT_EQ(own.missing(), "");
  // The teacher's, until they are renewed.
  EXPECT_EQ(features(own, 7), features(data, 7));
  Comm comm;
  own.renew(program, false, comm);
  const std::vector<float> buffer = features(own, 7);  // frame 28: of 8 samples, the newest its own
  const std::vector<float> nothing(drive::kFeatures, 0.0f);
  for (size_t row = 0; row < 25; ++row) {
    const int64_t of = static_cast<int64_t>(row) - 17;
    EXPECT_TRUE(holds(buffer, row, of < 0 ? nothing : expected(data, of))) << row;
  }
  EXPECT_FALSE(holds(buffer, 24, expected(data, 0)));  // samples differ
  // Without what only the loss needs, such as the policy's attention.
  program.run_evaluation();
  const auto attends = [choices = program.choices()](const char* kind) {
    return std::ranges::any_of(choices.at(kind), [](const auto& each) { return each.node.find("Attention") < 99; });
  };
  EXPECT_TRUE(attends("evaluate"));
  EXPECT_FALSE(attends("evaluate/features"));
  // A file of them gives the same; one of another data set, or damaged, is refused.
  own.save(folder_ / "f/features.safetensors", "one");
  OwnFeatures again(data, data, student);
  again.load(folder_ / "f/features.safetensors", "one");
  EXPECT_EQ(features(again, 7), buffer);
  EXPECT_NE(error_of([&] { again.load(folder_ / "f/features.safetensors", "two"); }).find("another data set"),
            std::string::npos);
  const FirstSamples few(data, 2);
  OwnFeatures other(data, few, student);
  EXPECT_NE(error_of([&] { other.load(folder_ / "f/features.safetensors", "one"); }).find("expected one tensor"),
            std::string::npos);
}

TEST_F(OwnFeaturesTest, SaysWhichSamplesRememberWhatIsNotThere) {
  {
    ClipWriter writer(info_);
    write("log--0", writer, 0, 24, 20);  // not of a sample of this clip, and the next one has its own frames alone
    write("log--1", writer, 24, 16);
  }
  const Dataset data(folder_ / "data");
  ASSERT_EQ(data.size(), 9);
  EXPECT_EQ(data.remembered(), 0);
  const Student student(options(2), data.fields());
  TrainingProgram program = student.program({.session = {.threads = 1}});
  OwnFeatures own(data, data, student);
  // Frames 24 to 36 remember frame 20.
  EXPECT_EQ(own.complete(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(own.missing(),
            "4 of 9 samples remember frames whose pictures are not stored: frames that are no samples (log--1: 4)");
  Comm comm;
  own.renew(program, false, comm);
  const std::vector<float> buffer = features(own, 5);  // frame 24: rows of 0, 4, ..., 16, 20, 24
  EXPECT_TRUE(holds(buffer, 22, expected(data, 4)));
  EXPECT_TRUE(holds(buffer, 24, expected(data, 5)));
  EXPECT_EQ(buffer[23 * drive::kFeatures], 20.5f);  // the teacher's
  const ChosenSamples chosen(own, own.complete());
  EXPECT_EQ(chosen.size(), 5);
  EXPECT_EQ(features(chosen, 4), features(own, 4));
}

// A frame that is no sample, but that samples of its clip remember, has its pictures: one in the middle, and a first
// one, which has no earlier picture.
TEST_F(OwnFeaturesTest, FramesThatAreNoSamplesAreRemembered) {
  for (const int64_t left_out : {20, 0}) {
    const std::string clip = left_out == 0 ? "log--1" : "log--0";
    {
      ClipWriter writer(info_);
      write(clip, writer, 0, 40, left_out);
    }
    const Dataset data(folder_ / "data");
    ASSERT_EQ(data.size(), 9);
    ASSERT_EQ(data.remembered(), 1);
    EXPECT_EQ(data.frame_id(9), left_out);
    EXPECT_EQ(data.clip_of(9).left_out.at("left out"), 1);
    const Student student(options(2), data.fields());
    TrainingProgram program = student.program({.session = {.threads = 1}});
    OwnFeatures own(data, data, student);
    EXPECT_EQ(own.complete().size(), 9u);
    EXPECT_EQ(own.missing(), "");
    Comm comm;
    own.renew(program, false, comm);
    const int64_t next = left_out / 4;  // the sample of the frame four later
    EXPECT_EQ(data.frame_id(next), left_out + 4);
    EXPECT_TRUE(holds(features(own, next), 23, expected(data, 9)));
    EXPECT_FALSE(holds(features(own, next), 23, expected(data, next)));
    fs::remove(folder_ / "data" / (clip + ".rows.safetensors"));
  }
}

TEST_F(OwnFeaturesTest, NeedEveryFrameThatTheModelRemembers) {
  info_.every = 3;
  save_dataset_info(folder_ / "data", info_);
  {
    ClipWriter writer(info_);
    write("log--0", writer, 0, 40);
  }
  const Dataset data(folder_ / "data");
  const Student student(options(2), data.fields());
  const OwnFeatures own(data, data, student);
  EXPECT_EQ(own.complete(), (std::vector<int64_t>{0, 1}));  // frames 0 and 3
  EXPECT_NE(own.missing().find("samples are 3 frames apart, the model remembers every 4th (dataset build --every 4)"),
            std::string::npos)
      << own.missing();
  StudentOptions alone = options(2);
  alone.networks = {networks_[1]};
  EXPECT_NE(OwnFeatures::refusal(data.info(), Student(alone, data.fields())), "");
}

}  // namespace own_features_test
}  // namespace sparkpilot::train
