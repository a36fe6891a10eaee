#include "train/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/fnv.h"
#include "base/test_files.h"
#include "train/test_dataset.h"

namespace sparkpilot::train {
namespace {

class SmallDataset : public ::testing::Test {
 protected:
  void SetUp() override { save_dataset_info(folder_.path(), info_); }
  std::filesystem::path rows() const { return rows_file(folder_.path(), "log--0"); }
  std::filesystem::path frames() const { return frames_file(folder_.path(), "log--0"); }

  // Rewrites a tensor of the rows.
  void change(const std::string& name, const std::function<void(Tensor&)>& edit) const {
    SafetensorsFile file = load_safetensors(rows());
    for (auto& [tensor, value] : file.tensors) {
      if (tensor == name) edit(value);
    }
    save_safetensors(rows(), file);
  }

  std::string refusal(const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
      return error.what();
    }
    return "accepted";
  }
  std::string open() const {
    return refusal([&] { const Dataset data(folder_.path()); });
  }
  // What refuses must name the file.
  void expect_refused(const std::string& text, const std::filesystem::path& file, const std::string& what) const {
    EXPECT_NE(text.find(file.string()), std::string::npos) << text;
    EXPECT_NE(text.find(what), std::string::npos) << text;
  }

  // Of one network or two.
  DatasetInfo info_of(bool merged, int every) const {
    DatasetInfo info = info_;
    info.every = every;
    info.contract.merged = merged;
    if (!merged) return info;
    info.contract.features = 24;
    info.inputs[3].shape = Shape{24, 512};
    return info;
  }

  TempFolder folder_;
  DatasetInfo info_ = small_info();
};

TEST_F(SmallDataset, GivesBackWhatWasWritten) {
  write_small_clip(folder_.path(), info_, 12);
  const Dataset data(folder_.path());
  ASSERT_EQ(data.size(), 12);
  std::vector<std::string> names;
  for (const Field& field : data.fields()) names.push_back(field.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"img", "big_img", "desire_pulse", "features_buffer", "traffic_convention",
                                      "teacher.vision", "teacher.policy", "driven.plan", "driven.valid", "speed"}));
  const auto fields = data.fields();
  for (const int64_t i : {0, 3, 4, 11}) {
    const auto blocks = read_sample(data, i);
    const auto at = [&](size_t field, int64_t element) {
      return as_floats(blocks[field], fields[field])[static_cast<size_t>(element)];
    };
    // The older picture is four frames before; nothing was before the first.
    EXPECT_EQ(at(0, 0), i < 4 ? 0 : static_cast<float>(7 * (i - 4) + 1));
    EXPECT_EQ(at(0, drive::kFrameBytes), static_cast<float>(7 * i + 1));
    EXPECT_EQ(at(1, drive::kFrameBytes), static_cast<float>(7 * i + 2));
    EXPECT_EQ(at(3, 24 * 512), static_cast<float>(i) + 0.5F);
    EXPECT_EQ(at(3, 23 * 512 + 511), i < 4 ? 0 : static_cast<float>(i - 4) + 0.5F);
    EXPECT_EQ(at(4, 0), 1);
    EXPECT_EQ(at(5, 512), static_cast<float>(i));
    EXPECT_EQ(at(6, 2), static_cast<float>(i));
    EXPECT_EQ(at(7, 494), static_cast<float>(i));
    EXPECT_EQ(at(8, 0) + at(8, 1), 1);
    EXPECT_EQ(at(9, 0), 10 + static_cast<float>(i));
    EXPECT_EQ(data.frame_id(i), i);
  }
  data.check();
}

TEST_F(SmallDataset, SixteenBitsAreForOutputsAndWhatFits) {
  ClipWriter writer(info_);
  writer.begin(folder_.path(), "log--0", "dongle|log");
  Targets targets = small_targets(info_, 1);
  targets.teacher[0][7] = 0.1F;
  targets.teacher[1][0] = 1e6F;
  Step step = small_step(0);
  step.features[3] = 0.1F;
  writer.add(step, &targets);
  writer.commit();
  const SafetensorsReader shard(rows());
  EXPECT_EQ(shard.find("teacher.vision")->dtype, DType::f16);
  EXPECT_EQ(shard.find("teacher.policy")->dtype, DType::f32);
  EXPECT_EQ(shard.find("features")->dtype, DType::f32);
  const Dataset data(folder_.path());
  const auto blocks = read_sample(data, 0);
  EXPECT_EQ(as_floats(blocks[3], data.fields()[3])[24 * 512 + 3], 0.1F) << "an input is what the network was given";
  EXPECT_EQ(as_floats(blocks[5], data.fields()[5])[7], static_cast<float>(Half(0.1F)));
  EXPECT_EQ(as_floats(blocks[6], data.fields()[6])[0], 1e6F);
}

TEST_F(SmallDataset, StoresTheLabelsThatAreNotZero) {
  info_.source = Source::synthetic;
  save_dataset_info(folder_.path(), info_);
  ClipWriter writer(info_);
  writer.begin(folder_.path(), "log--0", "dongle|log");
  for (int64_t i = 0; i < 3; ++i) {
    Targets targets = small_targets(info_, i);
    for (std::vector<float>& labels : targets.labels) std::ranges::fill(labels, 0.0F);
    targets.labels[0][500] = 0.1F;
    targets.labels[0][7] = i == 1 ? 1.0F : 0.0F;
    writer.add(small_step(i), &targets);
  }
  writer.commit();
  const auto field_of = [](const Dataset& data, const char* name) {
    const auto fields = data.fields();
    return static_cast<size_t>(std::ranges::find(fields, name, &Field::name) - fields.begin());
  };
  {
    const SafetensorsReader shard(rows());
    EXPECT_EQ(shard.find("labels.vision")->shape, (Shape{3, 2}));
    EXPECT_EQ(shard.find("labels.policy")->shape, (Shape{3, 1}));
    const Dataset data(folder_.path());
    data.check();
    const size_t vision = field_of(data, "labels.vision"), policy = field_of(data, "labels.policy");
    for (int64_t i = 0; i < 3; ++i) {
      const auto blocks = read_sample(data, i);
      std::vector<float> expected(513);
      expected[500] = 0.1F;
      expected[7] = i == 1 ? 1.0F : 0.0F;
      EXPECT_EQ(as_floats(blocks[vision], data.fields()[vision]), expected) << i;
      EXPECT_EQ(as_floats(blocks[policy], data.fields()[policy]), std::vector<float>(3)) << i;
    }
  }
  const std::string columns = "labels.vision.columns";
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{500, 7}, {7, 7}, {-1, 7}, {7, 513}}) {
    change(columns, [&](Tensor& value) { value = Tensor::of<int64_t>(Shape{2}, wrong); });
    expect_refused(open(), rows(), "\"" + columns + "\" does not hold rising columns");
  }
  change(columns, [](Tensor& value) { value = Tensor::of<int64_t>(Shape{3}, std::vector<int64_t>{1, 7, 500}); });
  expect_refused(open(), rows(), "\"labels.vision\" has shape");
  change(columns, [](Tensor& value) { value = Tensor::zeros(DType::i64, {600}); });
  expect_refused(open(), rows(), "has 600 columns");
  change(columns, [](Tensor& value) { value = Tensor::zeros(DType::f32, {2}); });
  expect_refused(open(), rows(), "\"" + columns + "\" is f32");
}

// The only sample is at the end of five seconds.
TEST_F(SmallDataset, ASampleRemembersFiveSeconds) {
  for (const bool merged : {false, true}) {
    const DatasetInfo info = info_of(merged, 4);
    ClipWriter writer(info);
    writer.begin(folder_.path(), "log--0", "dongle|log");
    for (int64_t i = 0; i <= 96; ++i) {
      const Targets targets = small_targets(info, i);
      writer.add(small_step(i), i == 96 ? &targets : nullptr, "left out");
    }
    writer.commit();
    const ClipReader reader(folder_.path(), "log--0", info);
    ASSERT_EQ(reader.remembered(), 24);
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(reader.frame_id(1 + i), 4 * i);
  }
}

// Samples here and there, frames that did not run among them: each frame that a sample remembers, if it is due and has
// the frame before it, has pictures, and no other one has.
TEST_F(SmallDataset, StoresThePicturesThatSamplesRemember) {
  for (const bool merged : {false, true}) {
    const DatasetInfo info = info_of(merged, 2);
    save_dataset_info(folder_.path(), info);
    ClipWriter writer(info);
    writer.begin(folder_.path(), "log--0", "dongle|log");
    Fnv random;
    std::set<int64_t> samples, lost;
    for (int64_t i = 0; i < 200; ++i) {
      random.bytes(&i, sizeof(i));
      Step step = small_step(i);
      step.ran = random.value() % 23 != 0;
      const bool sample = step.ran && i % 2 == 0 && random.value() % 3 != 0 && (i < 60 || i > 100);
      const Targets targets = small_targets(info, i);
      if (!step.ran) lost.insert(i);
      if (sample) samples.insert(i);
      writer.add(std::move(step), sample ? &targets : nullptr, "left out");
    }
    writer.commit();
    ASSERT_GT(lost.size(), 3u);
    const ClipReader reader(folder_.path(), "log--0", info);
    ASSERT_EQ(reader.samples(), std::ssize(samples));
    std::set<int64_t> wanted, stored;
    std::vector<int64_t> needed;  // of the oldest one the frame before may be forgotten
    for (int64_t i = 0; i < reader.samples(); ++i) {
      for (const int64_t row : reader.feature_rows(i)) {
        if (row < 0 || row % 2 != 0 || samples.contains(row)) continue;
        wanted.insert(row);
        if (reader.row_of(i) - row < kMemory - 4) needed.push_back(row);
      }
    }
    for (int64_t i = reader.samples(); i < reader.samples() + reader.remembered(); ++i) {
      stored.insert(reader.frame_id(i));
      std::vector<uint8_t> pair(size_t{2} * drive::kFrameBytes);
      reader.picture(i, InputKind::road, pair);
      const std::vector<uint8_t> newer = *small_step(reader.frame_id(i)).pictures;
      EXPECT_TRUE(std::equal(pair.begin() + drive::kFrameBytes, pair.end(), newer.begin()));
      if (reader.frame_id(i) < 4) continue;
      const std::vector<uint8_t> older = *small_step(reader.frame_id(i) - 4).pictures;
      EXPECT_TRUE(std::equal(pair.begin(), pair.begin() + drive::kFrameBytes, older.begin()));
    }
    EXPECT_TRUE(std::ranges::includes(wanted, stored));
    for (const int64_t row : needed) EXPECT_TRUE(stored.contains(row)) << row;
    EXPECT_GT(stored.size(), 10u);
    const Dataset data(folder_.path());
    EXPECT_EQ(data.remembered(), std::ssize(stored));
    for (int64_t i = 0; i < data.size(); ++i) {
      const std::vector<int64_t> rows = reader.feature_rows(i), past = data.past(i);
      for (size_t k = 0; k < rows.size(); ++k) {
        const bool known = rows[k] < 0 || samples.contains(rows[k]) || stored.contains(rows[k]);
        EXPECT_EQ(past[k] != Dataset::kNoSample, known);
        if (past[k] >= 0) {
          EXPECT_EQ(data.frame_id(past[k]), rows[k]);
        }
      }
    }
  }
}

TEST_F(SmallDataset, SplitsByRouteAndKnowsItsClips) {
  write_small_clip(folder_.path(), info_, 5, "log--10");
  write_small_clip(folder_.path(), info_, 2, "log--9");
  write_small_clip(folder_.path(), info_, 3, "other--0", "other");
  const Dataset all(folder_.path()), train(folder_.path(), {.split = Split::train}),
      validation(folder_.path(), {.split = Split::validation});
  EXPECT_EQ(all.size(), 10);
  EXPECT_EQ(train.size(), 7);
  EXPECT_EQ(validation.size(), 3);
  ASSERT_EQ(all.clips().size(), 3u);
  EXPECT_EQ(all.clips()[0].name, "log--9") << "by number, not by letter";
  EXPECT_EQ(all.clip_of(2).name, "log--10");
  EXPECT_EQ(all.frame_id(2), 0);
  EXPECT_TRUE(validation.clips()[0].validation);
  EXPECT_NE(all.fingerprint(), train.fingerprint());
  EXPECT_EQ(all.fingerprint(), Dataset(folder_.path()).fingerprint());
}

TEST_F(SmallDataset, IsReadBySeveralThreads) {
  write_small_clip(folder_.path(), info_, 8);
  const Dataset data(folder_.path(), {.augment = {.warp_degrees = 0.3, .brightness = 0.1}});
  std::vector<std::vector<std::vector<std::byte>>> got(8);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < 8; i += 4) got[static_cast<size_t>(i)] = read_sample(data, i);
    });
  }
  for (auto& thread : threads) thread.join();
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], read_sample(data, i)) << i;
}

TEST_F(SmallDataset, AugmentsByEpochAndSample) {
  write_small_clip(folder_.path(), info_, 6);
  const Dataset plain(folder_.path());
  Dataset changed(folder_.path(), {.augment = {.brightness = 0.2, .seed = 9}});
  const auto first = read_sample(changed, 5), same = read_sample(plain, 5);
  EXPECT_NE(first[0], same[0]);
  EXPECT_TRUE(std::equal(first.begin() + 2, first.end(), same.begin() + 2)) << "only pictures change";
  changed.begin_epoch(1);
  EXPECT_NE(read_sample(changed, 5)[0], first[0]);
  changed.begin_epoch(0);
  EXPECT_EQ(read_sample(changed, 5), first);
}

TEST_F(SmallDataset, RefusesAFolderWithoutSamples) {
  const TempFolder nothing;
  expect_refused(refusal([&] { const Dataset data(nothing.path()); }), nothing.path(), "holds no dataset.json");
  expect_refused(open(), folder_.path(), "it holds no samples: 2 routes, 0 clips");
  write_small_clip(folder_.path(), info_, 2);
  expect_refused(refusal([&] { const Dataset data(folder_.path(), {.split = Split::validation}); }), folder_.path(),
                 "no validation samples");
}

TEST_F(SmallDataset, RefusesShardsOfOthers) {
  write_small_clip(folder_.path(), info_, 2);
  DatasetInfo other = info_;
  other.networks[0].hash = "00000000000000cc";
  save_dataset_info(folder_.path(), other);
  expect_refused(open(), rows(), "belongs to another data set");
  save_dataset_info(folder_.path(), info_);
  EXPECT_EQ(open(), "accepted");
  std::filesystem::copy_file(rows(), rows_file(folder_.path(), "log--1"));
  std::filesystem::copy_file(frames(), frames_file(folder_.path(), "log--1"));
  expect_refused(open(), rows_file(folder_.path(), "log--1"), "it is the shard of clip log--0");
  std::filesystem::remove(rows_file(folder_.path(), "log--1"));
  save_safetensors(rows(), {{{"x", Tensor::scalar(1.0F)}}, {}});
  expect_refused(open(), rows(), "no shard of a data set");
  info_.routes.erase(info_.routes.begin());
  write_small_clip(folder_.path(), info_, 2);
  save_dataset_info(folder_.path(), info_);
  expect_refused(open(), rows(), "does not list");
}

TEST_F(SmallDataset, RefusesDamagedShards) {
  const auto make = [&] { write_small_clip(folder_.path(), info_, 6); };
  make();
  const std::string whole = read_text(rows()), pictures = read_text(frames());
  write_text(rows(), whole.substr(0, whole.size() - 1));
  expect_refused(open(), rows(), "");
  make();
  write_text(frames(), pictures.substr(0, pictures.size() - 1));
  expect_refused(open(), frames(), "");
  std::filesystem::remove(frames());
  expect_refused(open(), frames(), "No such file");
  const auto set = [](int64_t row, int64_t value) {
    return [=](Tensor& t) { t.data<int64_t>()[static_cast<size_t>(row)] = value; };
  };
  const std::tuple<const char*, int64_t, int64_t, const char*> wrong[] = {
      {"picture", 5, 6, "row 5 needs picture 6, there are 6"},
      {"picture", 1, -1, "row 1 needs picture -1"},
      {"picture", 1, -2, "holds -2"},
      {"desire", 0, 8, "expected 0 to 7"},
      {"ran", 2, 0, "cannot be sample"},
      {"sample", 2, 3, "cannot be sample 3"},
      {"frame_id", 0, -1, "holds -1"}};
  for (const auto& [name, row, value, what] : wrong) {
    make();
    change(name, set(row, value));
    expect_refused(open(), rows(), what);
  }
  for (const auto& [value, what] : {std::pair(1, "row 2 cannot be remembered"), std::pair(2, "holds 2")}) {
    make();
    SafetensorsFile file = load_safetensors(rows());
    file.tensors.emplace_back("remembered", Tensor::of<int64_t>(Shape{6}, {0, 0, value, 0, 0, 0}));
    save_safetensors(rows(), file);
    expect_refused(open(), rows(), what);
  }
  make();
  change("speed", [](Tensor& t) { t.data<float>()[1] = std::numeric_limits<float>::quiet_NaN(); });
  expect_refused(open(), rows(), "not finite");
  make();
  change("time", [](Tensor& t) { t = Tensor::of<int64_t>(Shape{5}, {0, 1, 2, 3, 4}); });
  expect_refused(open(), rows(), "expected 6 rows of 1");
  make();
  change("features", [](Tensor& t) { t = convert(t, DType::f64); });
  expect_refused(open(), rows(), "is f64, expected f32");
}

TEST_F(SmallDataset, FindsNanAndChangedPictures) {
  write_small_clip(folder_.path(), info_, 3);
  change("driven.plan", [](Tensor& t) { t.data<float>()[495 + 3] = std::numeric_limits<float>::quiet_NaN(); });
  const Dataset data(folder_.path());
  read_sample(data, 0);
  expect_refused(refusal([&] { read_sample(data, 1); }), rows(), "\"driven.plan\", row 1: not finite");
  expect_refused(refusal([&] { data.check(); }), rows(), "not finite");
  write_small_clip(folder_.path(), info_, 3);
  std::string bytes = read_text(frames());
  bytes[bytes.size() - 100000] ^= 1;
  write_text(frames(), bytes);
  expect_refused(refusal([&] { Dataset(folder_.path()).check(); }), frames(), "not those that were written");
  write_small_clip(folder_.path(), info_, 3);
  const std::string alone = (folder_.path() / "other.frames.safetensors").string();
  std::filesystem::copy_file(frames(), alone);
  expect_refused(refusal([&] { Dataset(folder_.path()).check(); }), alone, "pictures without other.rows.safetensors");
}

TEST_F(SmallDataset, RefusesABadDescription) {
  const std::filesystem::path file = folder_ / kDatasetFile;
  const std::string good = read_text(file);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write_text(file, text);
    return refusal([&] { load_dataset_info(folder_.path()); });
  };
  EXPECT_EQ(with("\"C\"", "\"C\""), "accepted");
  expect_refused(with("{", "["), file, "is damaged");
  expect_refused(with("\"sparkpilot_dataset\": 1", "\"sparkpilot_dataset\": 2"), file, "expected 1 to 1");
  expect_refused(with("sparkpilot_dataset", "x"), file, "no data set");
  expect_refused(with("\"C\"", "\"Z\""), file, "expected A, B, C or D");
  expect_refused(with("\"frame_gap\": 4", "\"frame_gap\": 400"), file, "expected 1 to 100");
  expect_refused(with("\"context_stride\": 4", "\"context_stride\": 5"), file, "are not 5 s");
  expect_refused(with("\"hidden_state\"", "\"hidden\""), file, "no head hidden_state");
  expect_refused(with("513\n", "9513\n"), file, "of 513 values");
  expect_refused(with("\"every\": 1", "\"every\": 0"), file, "\"every\" is 0");
  expect_refused(with("\"wide\"", "\"deep\""), file, "kind \"deep\"");
  expect_refused(with("\"desire\",\n   \"dtype\": \"f32\"", "\"desire\",\n   \"dtype\": \"u8\""), file,
                 "is u8, which only pictures are");
  expect_refused(with("\"big_img\"", "\"img\""), file, "there twice");
  expect_refused(with("\"validation\"", "\"test\""), file, "\"split\" is \"test\"");
}

TEST_F(SmallDataset, DoesNotWriteWhatIsNotFinite) {
  ClipWriter writer(info_);
  writer.begin(folder_.path(), "log--0", "dongle|log");
  Step step = small_step(3);
  step.features[5] = std::numeric_limits<float>::infinity();
  EXPECT_NE(refusal([&] { writer.add(step, nullptr); }).find("log--0: frame 3: the teacher's features"),
            std::string::npos);
  Targets targets = small_targets(info_, 3);
  targets.teacher[1][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(refusal([&] { writer.add(small_step(3), &targets); }).find("the teacher's outputs"), std::string::npos);
}

TEST_F(SmallDataset, ADroppedClipLeavesNothing) {
  ClipWriter writer(info_);
  writer.begin(folder_.path(), "log--0", "dongle|log");
  const Targets targets = small_targets(info_, 0);
  writer.add(small_step(0), &targets);
  writer.abandon();
  EXPECT_FALSE(std::filesystem::exists(frames()));
  EXPECT_FALSE(std::filesystem::exists(rows()));
}

}  // namespace
}  // namespace sparkpilot::train
