// The folder of a data set that is being made.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "drive/camera_stream.h"
#include "drive/driver_model.h"
#include "drive/driving_model.h"
#include "train/dataset_build.h"

namespace sparkpilot::train {

// A clip that shall be there.
struct WantedClip {
  std::string name, route;
  int64_t frames = 0;  // about
};

// Why a frame with this calibration is no sample: it is absent or beyond openpilot's limits. Empty if it may
// be.
std::string refuse_calibration(const drive::PreparedFrame& frame);

// Loads the model and opens or makes the folder.
class DatasetFolder {
 public:
  // `contents`: what shards depend on besides the model and the options here.
  DatasetFolder(const BuildOptions& options, Source source, const std::string& contents);

  const DatasetInfo& info() const { return info_; }
  // The one of the two that BuildOptions::models names.
  drive::DrivingModel& model() { return *model_; }
  drive::DriverModel& driver_model() { return *driver_model_; }
  ClipWriter& writer() { return writer_; }
  const BuildOptions& options() const { return options_; }

  // Lists routes and says what will be written; fails (user) if the disk cannot hold it.
  void plan(const std::vector<WantedClip>& clips);
  void plan(std::span<const drive::Route> routes);  // a clip for each segment
  WantedClip clip_of(const drive::Route& route, size_t segment) const;
  // False if the clip is there, or the limit of bytes is reached; counts it.
  bool wants(const WantedClip& clip);
  void begin(const WantedClip& clip) { writer_.begin(options_.out, clip.name, clip.route); }
  void commit();
  void tell(const WantedClip& clip, int64_t frames);
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  void note(const std::string& text) const {
    if (options_.note) options_.note(text);
  }
  // A driving model's flat outputs of the last step.
  std::vector<std::vector<float>> outputs() const;
  BuildResult& result() { return result_; }
  // Fails (user) with the reason if no segment could be driven.
  BuildResult finish();

 private:
  int64_t estimate(int64_t frames) const;

  const BuildOptions& options_;
  FolderLock lock_;
  std::unique_ptr<drive::DrivingModel> model_;
  std::unique_ptr<drive::DriverModel> driver_model_;
  DatasetInfo info_;
  ClipWriter writer_;
  BuildResult result_;
  int64_t all_frames_ = 0, frames_ = 0, started_ = 0;  // planned; of finished clips
  int64_t all_clips_ = 0;
  int64_t bytes_ = 0;  // of all clips in the folder
};

}  // namespace sparkpilot::train
