// The shards of a clip, written frame by frame and read sample by sample (docs/dataset.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "route/contract/outputs.h"
#include "tensor/safetensors.h"
#include "train/dataset_format.h"

namespace sparkpilot::train {

inline constexpr int kCameras = 2;  // road and wide, of a driving model
inline constexpr int64_t kPlanValues = int64_t{drive::kPoints} * drive::kPlanWidth;

// A frame that a model was given, whether or not it becomes a sample.
struct Step {
  int64_t frame_id = 0, time = 0;  // ns of the device's clock
  bool ran = true;                 // false: only its pictures and its desire were queued
  int desire = 0;                  // the desire itself, not its pulse
  bool right_hand_drive = false;
  float speed = 0, steer_delay = 0;               // m/s, s
  float lateral_time = 0, longitudinal_time = 0;  // drive::ActionTimes
  float curvature = 0;                            // that the model then asked for
  float roll = 0, pitch = 0, yaw = 0;             // of driver monitoring: the calibration, radians
  std::vector<float> features = {};               // the teacher's hidden_state; empty without a teacher
  std::shared_ptr<std::vector<uint8_t>>
      pictures;  // DatasetInfo::cameras(), one after the other; null if no sample will need it
};

// What a sample has besides. An outer vector has an entry for each network, or none.
struct Targets {
  std::vector<std::vector<float>> teacher, labels;  // flat outputs
  // The path that the car drove, as a plan, and 1 for each of its points that is known, else 0 (and all values 0).
  std::array<float, kPlanValues> plan{};
  std::array<float, drive::kPoints> valid{};
};

// Why a frame is no sample, and how many.
using LeftOut = std::map<std::string, int64_t>;

struct ClipCounts {
  int64_t frames = 0, samples = 0, pictures = 0, bytes = 0;  // frames: without those before the clip
  LeftOut left_out;
};

// Keeps the memory that samples need across clips. One thread at a time.
class ClipWriter {
 public:
  explicit ClipWriter(const DatasetInfo& info);

  // The model was reset: what was before is forgotten.
  void reset();
  // Begins a clip: later steps belong to it, those before are its memory. `route`: of the data set's.
  void begin(const std::filesystem::path& folder, const std::string& clip, const std::string& route);
  // Whether a sample of this frame would be wanted, by its number.
  bool is_due(int64_t frame_id) const { return frame_id % info_.every == 0; }
  // Adds a frame; with `targets` it is a sample, else `why` not (may be empty: not due). Without a clip it is memory
  // only. Fails (user) if a value is not finite.
  void add(Step step, const Targets* targets, const std::string& why = {});
  // Both files appear, the frames' first.
  ClipCounts commit();
  // Nothing of the clip remains; the memory does.
  void abandon();

 private:
  struct Remembered {
    Step step;
    int64_t row = -1;  // in the clip
  };
  void remember(Step step, int64_t row);
  int64_t put_row(const Step& step);
  int64_t store_picture(Remembered& at);
  bool can_store_pair(size_t place) const;
  void store_pair(size_t place);
  void store_remembered();
  void check_finite(const Step& step, const Targets* targets) const;
  SafetensorsFile rows_of(std::map<std::string, std::string> metadata) const;

  const DatasetInfo& info_;
  std::deque<Remembered> memory_;
  int64_t ran_ = 0;  // of memory_

  std::filesystem::path folder_;
  std::string clip_, route_;
  std::optional<SafetensorsWriter> frames_;
  Fnv hash_;
  std::vector<Step> rows_;  // without pictures
  std::vector<int64_t> picture_, sample_, remembered_;
  int64_t before_ = 0;  // rows of frames before the clip
  std::vector<Targets> targets_;
  ClipCounts counts_;
};

// One thread opens it; its const functions may be called by several. Where a function takes a sample, numbers from
// samples() on are the remembered frames: those that are no samples, but have the pictures of one, because a sample's
// memory holds their features. They have no targets.
class ClipReader {
 public:
  // Fails (user), naming the file, if a shard is missing, damaged, or of another data set than `info`.
  ClipReader(const std::filesystem::path& folder, const std::string& clip, const DatasetInfo& info);

  const std::string& route() const { return route_; }
  const std::string& name() const { return clip_; }
  int64_t rows() const { return std::ssize(frame_id_); }
  int64_t samples() const { return std::ssize(sample_row_); }
  int64_t remembered() const { return std::ssize(remembered_row_); }
  int64_t pictures() const { return pictures_; }
  int64_t bytes() const { return bytes_; }
  const LeftOut& left_out() const { return left_out_; }
  const std::string& hash() const { return hash_; }  // of its pictures
  int64_t row_of(int64_t sample) const {
    return sample < samples() ? sample_row_[static_cast<size_t>(sample)]
                              : remembered_row_[static_cast<size_t>(sample - samples())];
  }
  int64_t frame_id(int64_t sample) const { return frame_id_[static_cast<size_t>(row_of(sample))]; }

  // An input of a sample as floats; the driver's picture as bytes, or a picture pair of the road, 2 x kFrameBytes: the
  // older one first.
  void input(int64_t sample, InputKind kind, std::span<float> out) const;
  void picture(int64_t sample, InputKind kind, std::span<uint8_t> out) const;
  // A column of the samples: "teacher.vision", "labels.policy", "driven.plan", "driven.valid". Fails (user) on NaN.
  void target(int64_t sample, const std::string& column, std::span<float> out) const;
  float speed(int64_t sample) const { return column("speed", row_of(sample)); }

  // The rows whose features the sample's input has, oldest first; -1: none was before, zeros.
  std::vector<int64_t> feature_rows(int64_t sample) const;
  int64_t frame_id_at(int64_t row) const { return frame_id_[static_cast<size_t>(row)]; }
  int64_t time_at(int64_t row) const { return time_[static_cast<size_t>(row)]; }

  // Reads everything: fails (user) at the first value that is not finite, and if the pictures are not those that were
  // written.
  void check() const;

 private:
  float column(const char* name, int64_t row) const;
  void open_rows(const DatasetInfo& info);
  void open_frames(const DatasetInfo& info);
  void check_pictures() const;
  void floats(const std::string& name, int64_t row, std::span<float> out) const;
  void desires(int64_t row, std::span<float> out) const;
  void features(int64_t sample, std::span<float> out) const;
  void curvatures(int64_t row, std::span<float> out) const;

  std::string clip_, route_, hash_;
  SafetensorsReader rows_file_, frames_file_;
  drive::DrivingContract contract_;
  bool teacher_;
  int cameras_;            // pictures of a frame
  int64_t picture_bytes_;  // of one
  std::vector<int64_t> frame_id_, time_, picture_, sample_row_, remembered_row_;
  std::vector<int64_t> desire_, ran_before_, ran_rows_;  // ran_before_: how many of ran_rows_ are above this row
  std::map<std::string, std::vector<float>> columns_;
  std::map<std::string, std::vector<int64_t>> kept_;  // of labels: which values of a sample are stored, else zeros
  int64_t pictures_ = 0, bytes_ = 0;
  LeftOut left_out_;
};

}  // namespace sparkpilot::train
