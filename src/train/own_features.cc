#include "train/own_features.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/with_file.h"
#include "tensor/safetensors.h"
#include "train/trainer.h"

namespace sparkpilot::train {
namespace {

using drive::kFeatures;
namespace fs = std::filesystem;
constexpr const char *kTensor = "features", *kFolder = "own_features", *kFile = "update_";

const DatasetInput* features_input(const DatasetInfo& info) {
  const auto found = std::ranges::find(info.inputs, InputKind::features, &DatasetInput::kind);
  return found == info.inputs.end() ? nullptr : &*found;
}

}  // namespace

// While features are computed: the data as it is, with those that are known so far.
class OwnFeatures::Unchanged final : public Samples {
 public:
  explicit Unchanged(const OwnFeatures& own) : own_(own) {}
  std::span<const Field> fields() const override { return own_.data_.fields(); }
  int64_t size() const override { return own_.data_.size(); }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    own_.data_.read(index, to);
    own_.put(index, to[own_.field_]);
  }

 private:
  const OwnFeatures& own_;
};

std::string OwnFeatures::refusal(const DatasetInfo& info, const Student& student) {
  const DatasetInput* const input = features_input(info);
  if (input == nullptr || !student.reads(input->name)) return "the student reads no features of the past";
  if (!student.features_part()) return "the student has no network that makes the features";
  return {};
}

OwnFeatures::OwnFeatures(const Dataset& data, const Samples& samples, const Student& student)
    : data_(data), samples_(samples) {
  if (const std::string why = refusal(data.info(), student); !why.empty()) fail("{}", why);
  part_ = *student.features_part();
  field_ = place_of(data.fields(), features_input(data.info())->name);
  std::map<int64_t, int64_t> by_order;  // the frames to be computed
  for (int64_t i = 0; i < samples.size(); ++i) {
    const std::vector<int64_t>& past = past_[i] = past_of(i);
    for (const int64_t each : past) {
      if (each >= 0) by_order.emplace(data.order(each), each);
    }
    if (std::ranges::find(past, Dataset::kNoSample) == past.end()) complete_.push_back(i);
  }
  std::map<int64_t, int64_t> slots;  // by sample
  for (const auto& [order, sample] : by_order) {
    if (!past_.contains(sample)) past_[sample] = past_of(sample);
    int64_t wave = 0;
    for (const int64_t before : past_[sample]) {
      const auto found = slots.find(before);  // two networks: the newest row is the frame's own, which is not there yet
      if (found != slots.end()) wave = std::max(wave, wave_[static_cast<size_t>(found->second)] + 1);
    }
    wave_.push_back(wave);
    slots[sample] = std::ssize(frames_);
    frames_.push_back(sample);
  }
  for (auto& [index, rows] : past_) {
    for (int64_t& each : rows) {
      if (each < 0) continue;
      const auto found = slots.find(each);
      each = found == slots.end() ? Dataset::kNoSample : found->second;
    }
  }
}

// As Dataset::past(), without what is not of the past: frame numbers that do not grow.
std::vector<int64_t> OwnFeatures::past_of(int64_t index) const {
  std::vector<int64_t> out = data_.past(index);
  for (int64_t& each : out) {
    if (each >= 0 && data_.order(each) > data_.order(index)) each = Dataset::kNoSample;
  }
  return out;
}

void OwnFeatures::put(int64_t index, std::byte* features) const {
  constexpr size_t kRow = kFeatures * sizeof(float);
  const std::vector<int64_t>& rows = past_.at(index);
  for (size_t i = 0; i < rows.size(); ++i) {
    auto* const to = reinterpret_cast<float*>(features + i * kRow);
    if (probe_) std::fill_n(to, kFeatures, *probe_);
    else if (rows[i] >= 0) std::memcpy(to, table_.data() + rows[i] * kFeatures, kRow);
    else if (rows[i] == Dataset::kNothing) std::memset(to, 0, kRow);
  }
}

void OwnFeatures::read(int64_t index, std::span<std::byte* const> to) const {
  samples_.read(index, to);
  if (!table_.empty()) put(index, to[field_]);
}

// Whether the features of a frame change with those before it.
bool OwnFeatures::depends_on_past(TrainingProgram& program, bool average) {
  std::vector<std::vector<float>> seen;
  for (const float value : {0.0F, 1.0F}) {
    probe_ = value;
    const int64_t frame = frames_[0];
    const Evaluation features(average, part_);
    evaluate_samples(program, Unchanged(*this), {&frame, 1}, features,
                     [&](size_t, int64_t entry) { seen.emplace_back(features_of(program, features, entry)); });
  }
  probe_.reset();
  return std::memcmp(seen[0].data(), seen[1].data(), kFeatures * sizeof(float)) != 0;
}

std::vector<float> OwnFeatures::features_of(const TrainingProgram& program, const Evaluation& which,
                                            int64_t entry) const {
  const float* const from = program.evaluation_part(which).as<float>() + entry * kFeatures;
  return {from, from + kFeatures};
}

void OwnFeatures::renew(TrainingProgram& program, bool average, Comm& comm) {
  if (frames_.empty()) return;
  table_.assign(frames_.size() * kFeatures, 0);
  bool in_order = false;
  comm.together([&] { in_order = depends_on_past(program, average); });
  in_order = comm.max(in_order ? 1 : 0) > 0;
  std::map<int64_t, std::vector<int64_t>> waves;
  for (size_t slot = 0; slot < frames_.size(); ++slot) {
    waves[in_order ? wave_[slot] : 0].push_back(static_cast<int64_t>(slot));
  }
  for (const auto& [wave, slots] : waves) compute(program, average, comm, slots);
}

void OwnFeatures::compute(TrainingProgram& program, bool average, Comm& comm, std::span<const int64_t> slots) {
  const auto share = [&](int rank) {
    return slots.size() * static_cast<size_t>(rank) / static_cast<size_t>(comm.size());
  };
  const size_t first = share(comm.rank()), end = share(comm.rank() + 1);
  std::vector<int64_t> frames;
  for (size_t i = first; i < end; ++i) frames.push_back(frames_[static_cast<size_t>(slots[i])]);
  std::vector<float> rows(slots.size() * kFeatures);
  comm.together([&] {
    const Evaluation features(average, part_);
    evaluate_samples(program, Unchanged(*this), frames, features, [&](size_t place, int64_t entry) {
      std::ranges::copy(features_of(program, features, entry),
                        rows.begin() + static_cast<int64_t>(first + place) * kFeatures);
    });
  });
  comm.sum(rows);
  for (size_t i = 0; i < slots.size(); ++i) {
    std::copy_n(rows.begin() + static_cast<int64_t>(i) * kFeatures, kFeatures, table_.begin() + slots[i] * kFeatures);
  }
}

std::string OwnFeatures::missing() const {
  const int64_t count = size() - std::ssize(complete_);
  if (count == 0) return {};
  std::map<std::string, int64_t> by_clip;
  for (int64_t i = 0; i < size(); ++i) {
    if (!std::ranges::binary_search(complete_, i)) ++by_clip[data_.clip_of(i).name];
  }
  std::string clips;
  for (const auto& [clip, missed] : by_clip) {
    if (clips.size() > 200) {
      clips += ", ...";
      break;
    }
    clips += fmt::format("{}{}: {}", clips.empty() ? "" : ", ", clip, missed);
  }
  const DatasetInfo& info = data_.info();
  const int stride = info.contract.context_stride;
  const std::string why =
      stride % info.every != 0
          ? fmt::format("samples are {} frames apart, the model remembers every {} (dataset build --every {})",
                        info.every, stride == 1 ? "frame" : fmt::format("{}th", stride), stride)
          : "frames that are no samples";
  return fmt::format("{} of {} samples remember frames whose pictures are not stored: {} ({})", count, size(), why,
                     clips);
}

void OwnFeatures::save(const fs::path& file, const std::string& dataset) const {
  make_folders(file.parent_path());
  SafetensorsFile out;
  out.tensors.emplace_back(kTensor, Tensor::of<float>({std::ssize(frames_), kFeatures}, table_));
  out.metadata = {{"dataset", dataset}};
  save_safetensors(file, out);
}

void OwnFeatures::load(const fs::path& file, const std::string& dataset) {
  const SafetensorsFile in = load_safetensors(file);
  with_file(file, [&] {
    const auto owner = in.metadata.find("dataset");
    if (owner == in.metadata.end() || owner->second != dataset) fail("of another data set");
    const Shape shape{std::ssize(frames_), kFeatures};
    if (in.tensors.size() != 1 || in.tensors[0].first != kTensor || in.tensors[0].second.dtype() != DType::f32 ||
        !(in.tensors[0].second.shape() == shape)) {
      fail("expected one tensor \"{}\", f32 {}", kTensor, shape.str());
    }
    const auto values = in.tensors[0].second.data<float>();
    table_.assign(values.begin(), values.end());
  });
}

fs::path own_features_file(const fs::path& out, int64_t updates) {
  return out / kFolder / fmt::format("{}{:08}.safetensors", kFile, updates);
}

void drop_own_features(const fs::path& out, const std::function<bool(int64_t updates)>& unwanted) {
  std::error_code ignored;
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(out / kFolder, ignored)) all.push_back(entry.path());
  const std::string_view begin = kFile;
  for (const fs::path& file : all) {
    const std::string name = file.filename().string();
    int64_t updates = 0;
    if (!name.starts_with(begin)) continue;
    const auto [end, error] = std::from_chars(name.data() + begin.size(), name.data() + name.size(), updates);
    if (error == std::errc() && file == own_features_file(out, updates) && unwanted(updates)) fs::remove(file, ignored);
  }
}

}  // namespace sparkpilot::train
