// Samples whose past features are the student's own instead of the teacher's.
//
// A driving model's memory is its own features of earlier frames. A data set holds the teacher's, which the student
// never sees when it drives. Here they are computed by the student from the pictures of the earlier samples: a rollout
// over the sequences of the data set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "train/dataset.h"
#include "train/program.h"
#include "train/student.h"

namespace sparkpilot::train {

class OwnFeatures final : public Samples {
 public:
  // Why the student has no own past features; empty if it has: it reads them, and makes those of a frame.
  static std::string refusal(const DatasetInfo& info, const Student& student);

  // The samples of `samples`, which are the first of `data` (which has no augmentation: the memory is of the pictures
  // as they are). Both must outlive it. Until renew() has run the features are the teacher's.
  OwnFeatures(const Dataset& data, const Samples& samples, const Student& student);

  std::span<const Field> fields() const override { return samples_.fields(); }
  int64_t size() const override { return samples_.size(); }
  void begin_epoch(int64_t epoch) const override { samples_.begin_epoch(epoch); }
  void read(int64_t index, std::span<std::byte* const> to) const override;

  // Computes the features of all frames that the samples remember, each process a part of them. If a frame's features
  // depend on those before it, in the order of time. Not while another thread reads.
  void renew(TrainingProgram& program, bool average, Comm& comm);

  // The samples whose past is known: each frame of it has the pictures of a sample, or there was none yet. In the other
  // ones, features of frames that have not stay the teacher's. (Where features depend on those before them, what such a
  // frame remembers itself may be the teacher's all the same.)
  const std::vector<int64_t>& complete() const { return complete_; }
  // Of the others, by clip, and why: "4 of 50 samples have ... (log--0: 3, log--1: 1)". Empty if there are none.
  std::string missing() const;

  // All features that renew() computed, in a file: what a resumed run goes on with.
  void save(const std::filesystem::path& file, const std::string& dataset) const;
  // Fails (user) naming the file, if it is damaged or of another data set.
  void load(const std::filesystem::path& file, const std::string& dataset);

 private:
  class Unchanged;

  std::vector<int64_t> past_of(int64_t index) const;
  void put(int64_t index, std::byte* features) const;
  std::vector<float> features_of(const TrainingProgram& program, const Evaluation& which, int64_t entry) const;
  bool depends_on_past(TrainingProgram& program, bool average);
  void compute(TrainingProgram& program, bool average, Comm& comm, std::span<const int64_t> slots);

  const Dataset& data_;
  const Samples& samples_;
  size_t part_ = 0;   // Student::features_part()
  size_t field_ = 0;  // of the samples: the features of the past
  // Of each sample in use, and of the remembered frames: slots; or Dataset::kNothing, kNoSample.
  std::map<int64_t, std::vector<int64_t>> past_;
  std::vector<int64_t> frames_;  // samples and remembered frames by slot, in the order of time
  std::vector<int64_t> wave_;    // by slot: how many frames have to be computed one after the other before it
  std::vector<int64_t> complete_;
  std::vector<float> table_;    // kFeatures of each slot; empty before renew()
  std::optional<float> probe_;  // depends_on_past(): all features are this
};

// OUT/own_features/update_NNNNNNNN.safetensors: OwnFeatures::save() of the pass that began after NNNNNNNN updates.
std::filesystem::path own_features_file(const std::filesystem::path& out, int64_t updates);
// Removes those of which `unwanted` says so.
void drop_own_features(const std::filesystem::path& out, const std::function<bool(int64_t updates)>& unwanted);

// Some samples of others, in this order.
class ChosenSamples final : public Samples {
 public:
  // `all` must outlive it.
  ChosenSamples(const Samples& all, std::vector<int64_t> chosen) : all_(all), chosen_(std::move(chosen)) {}
  std::span<const Field> fields() const override { return all_.fields(); }
  int64_t size() const override { return std::ssize(chosen_); }
  void begin_epoch(int64_t epoch) const override { all_.begin_epoch(epoch); }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    all_.read(chosen_[static_cast<size_t>(index)], to);
  }

 private:
  const Samples& all_;
  std::vector<int64_t> chosen_;
};

}  // namespace sparkpilot::train
