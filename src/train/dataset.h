// Samples of a data set that sparkpilot dataset build made (docs/dataset.md).
//
// The fields of a sample, in this order:
//   the networks' inputs, by their names: pictures u8 (f32 where the network takes floats), all else f32
//   teacher.<network>   [width]  the teacher's flat output, if it ran
//   labels.<network>    [width]  of synthetic roads: what is true, in the same form (label_output() in
//                                train/dataset_labels.h)
// and of a driving model's data set:
//   driven.plan         [33, 15] the path that the car drove, as a plan (route/contract/outputs.h)
//   driven.valid        [33]     1 for the points of it that are known, else 0
//   speed               [1]      m/s
// features_buffer holds the teacher's features of past frames; zeros without a teacher.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "train/dataset_augment.h"
#include "train/dataset_format.h"
#include "train/samples.h"

namespace sparkpilot::train {

class ClipReader;

enum class Split { all, train, validation };

struct DatasetOptions {
  Split split = Split::all;
  AugmentOptions augment = {};
  bool blank = false;  // grey pictures instead of the stored ones: what a model knows without looking
  bool may_be_empty = false;
};

class Dataset : public Samples {
 public:
  // Opens every shard. Fails (user), naming the file, if one is damaged or belongs to another data set, and if there is
  // no sample, unless it may be empty.
  explicit Dataset(const std::filesystem::path& folder, const DatasetOptions& options = {});
  ~Dataset() override;

  const DatasetInfo& info() const { return info_; }
  std::span<const Field> fields() const override { return fields_; }
  int64_t size() const override;
  void read(int64_t index, std::span<std::byte* const> to) const override;

  void begin_epoch(int64_t epoch) const override { epoch_ = epoch; }  // augmentation draws anew

  // Samples [begin, begin + size) are frames of one clip in their order.
  struct Clip {
    std::string name, route;
    bool validation = false;
    int64_t begin = 0, size = 0;
    int64_t rows = 0, pictures = 0, bytes = 0;
    std::map<std::string, int64_t> left_out;  // frames that are no samples, by reason
  };
  const std::vector<Clip>& clips() const { return clips_; }
  // Frames that are no samples, but whose features samples remember, and which have the pictures of one (ClipReader):
  // numbers [size(), size() + remembered()) wherever this class takes a sample. Their targets read as zeros.
  int64_t remembered() const { return std::ssize(remembered_); }
  // The clip of a sample, and the number of its frame in the route.
  const Clip& clip_of(int64_t index) const;
  int64_t frame_id(int64_t index) const;
  // Grows from frame to frame of a clip, and from clip to clip.
  int64_t order(int64_t index) const;

  // The samples or remembered frames whose features an input of this one holds, oldest first. kNothing: there was no
  // frame yet, zeros. kNoSample: of a frame that is neither, so that its pictures are missing.
  static constexpr int64_t kNothing = -1, kNoSample = -2;
  std::vector<int64_t> past(int64_t index) const;

  // Reads everything (ClipReader::check()), and fails on pictures of a clip without its rows. `progress` gets 0 to 1.
  void check(const std::function<void(double)>& progress = {}) const;
  // Of the contents: the data set's id, and which clips with which pictures and rows.
  std::string fingerprint() const;

 private:
  struct Place {
    size_t clip;
    int64_t sample;  // of its reader
  };
  Place locate(int64_t index) const;
  void open_clips(const std::filesystem::path& folder, Split split);
  void list_fields();

  std::filesystem::path folder_;
  DatasetInfo info_;
  DatasetOptions options_;
  std::vector<Field> fields_;
  std::vector<Clip> clips_;
  std::vector<std::unique_ptr<ClipReader>> readers_;
  std::vector<Place> remembered_;
  std::vector<int64_t> rows_before_;  // by clip: rows of those before it
  // Samples, else remembered frames, by route, frame and time: the numbers of frames may begin anew within a route.
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> by_frame_;
  mutable int64_t epoch_ = 0;
};

}  // namespace sparkpilot::train
