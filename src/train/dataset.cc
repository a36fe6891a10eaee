#include "train/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/fnv.h"
#include "base/text.h"
#include "train/dataset_clip.h"

namespace sparkpilot::train {
namespace fs = std::filesystem;
namespace {

constexpr uint8_t kGrey = 128;
constexpr const char* kSpeed = "speed";

constexpr std::string_view kRowsEnd = ".rows.safetensors", kFramesEnd = ".frames.safetensors";

// Names of the clips in a folder by files of that end. A clip is there with its rows, which are written last.
std::vector<std::string> clip_names(const fs::path& folder, std::string_view end) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(end)) names.push_back(name.substr(0, name.size() - end.size()));
  }
  // Segments in the order of their numbers.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const auto key = [](const std::string& n) {
      const size_t dash = n.rfind("--");
      return std::tuple(n.substr(0, dash), dash == std::string::npos ? 0 : n.size() - dash, n);
    };
    return key(a) < key(b);
  });
  return names;
}

std::tuple<std::string, int64_t, int64_t> key_of(const ClipReader& reader, int64_t row) {
  return {reader.route(), reader.frame_id_at(row), reader.time_at(row)};
}

}  // namespace

Dataset::~Dataset() = default;

Dataset::Dataset(const fs::path& folder, const DatasetOptions& options)
    : folder_(folder), info_(load_dataset_info(folder)), options_(options) {
  if (options.augment.warp_degrees > 0 && info_.of_driver()) {
    fail("{}: the driver's pictures cannot be turned: only their brightness can be changed", folder.string());
  }
  open_clips(folder, options.split);
  list_fields();
  if (size() > 0 || options.may_be_empty) return;
  const char* const what = options.split == Split::train        ? "training samples"
                           : options.split == Split::validation ? "validation samples"
                                                                : "samples";
  fail("{}: it holds no {}: {}, {}", folder.string(), what, count_of(std::ssize(info_.routes), "route"),
       count_of(std::ssize(clips_), "clip"));
}

void Dataset::open_clips(const fs::path& folder, Split split) {
  int64_t begin = 0;
  for (const std::string& name : clip_names(folder, kRowsEnd)) {
    auto reader = std::make_unique<ClipReader>(folder, name, info_);
    const DatasetRoute* const route = info_.route(reader->route());
    if (!route) {
      fail("{}: of route \"{}\", which {} does not list", rows_file(folder, name).string(), reader->route(),
           kDatasetFile);
    }
    if (split != Split::all && route->validation != (split == Split::validation)) continue;
    clips_.push_back({name, route->name, route->validation, begin, reader->samples(), reader->rows(),
                      reader->pictures(), reader->bytes(), reader->left_out()});
    for (int64_t i = 0; i < reader->samples(); ++i) by_frame_[key_of(*reader, reader->row_of(i))] = begin + i;
    begin += reader->samples();
    rows_before_.push_back(rows_before_.empty() ? 0 : rows_before_.back() + readers_.back()->rows());
    readers_.push_back(std::move(reader));
  }
  for (size_t clip = 0; clip < readers_.size(); ++clip) {
    const ClipReader& reader = *readers_[clip];
    for (int64_t i = reader.samples(); i < reader.samples() + reader.remembered(); ++i) {
      by_frame_.try_emplace(key_of(reader, reader.row_of(i)), size() + remembered());
      remembered_.push_back({clip, i});
    }
  }
}

void Dataset::list_fields() {
  for (const DatasetInput& input : info_.inputs) fields_.push_back({input.name, input.dtype, input.shape});
  const auto flat = [&](const std::string& what) {
    for (const DatasetNetwork& n : info_.networks) fields_.push_back({what + "." + n.role, DType::f32, Shape{n.width}});
  };
  if (info_.teacher) flat("teacher");
  if (info_.source == Source::synthetic) flat("labels");
  if (info_.of_driver()) return;
  fields_.push_back({"driven.plan", DType::f32, Shape{drive::kPoints, drive::kPlanWidth}});
  fields_.push_back({"driven.valid", DType::f32, Shape{drive::kPoints}});
  fields_.push_back({kSpeed, DType::f32, Shape{1}});
}

int64_t Dataset::size() const { return clips_.empty() ? 0 : clips_.back().begin + clips_.back().size; }

Dataset::Place Dataset::locate(int64_t index) const {
  if (index < 0 || index >= size() + remembered()) fail_internal("sample {} of {}", index, size());
  if (index >= size()) return remembered_[static_cast<size_t>(index - size())];
  const auto after =
      std::upper_bound(clips_.begin(), clips_.end(), index, [](int64_t i, const Clip& clip) { return i < clip.begin; });
  const auto clip = static_cast<size_t>(after - clips_.begin()) - 1;
  return {clip, index - clips_[clip].begin};
}

const Dataset::Clip& Dataset::clip_of(int64_t index) const { return clips_[locate(index).clip]; }

int64_t Dataset::frame_id(int64_t index) const {
  const auto [clip, sample] = locate(index);
  return readers_[clip]->frame_id(sample);
}

int64_t Dataset::order(int64_t index) const {
  const auto [clip, sample] = locate(index);
  return rows_before_[clip] + readers_[clip]->row_of(sample);
}

std::vector<int64_t> Dataset::past(int64_t index) const {
  const auto [clip, sample] = locate(index);
  std::vector<int64_t> out = readers_[clip]->feature_rows(sample);
  for (int64_t& each : out) {
    if (each < 0) {
      each = kNothing;
      continue;
    }
    const auto found = by_frame_.find(key_of(*readers_[clip], each));
    each = found == by_frame_.end() ? kNoSample : found->second;
  }
  return out;
}

void Dataset::read(int64_t index, std::span<std::byte* const> to) const {
  if (to.size() != fields_.size()) fail_internal("{} blocks for {} fields", to.size(), fields_.size());
  const auto [clip, sample] = locate(index);
  const ClipReader& reader = *readers_[clip];
  const bool changed = options_.augment.any();
  const PictureChange change = changed ? draw_change(options_.augment, epoch_, index) : PictureChange{};
  drive::YuvImage scratch;
  const auto floats = [&](size_t i) {
    return std::span(reinterpret_cast<float*>(to[i]), static_cast<size_t>(fields_[i].shape.elements()));
  };
  for (size_t i = 0; i < info_.inputs.size(); ++i) {
    const DatasetInput& input = info_.inputs[i];
    const bool driver = input.kind == InputKind::driver;
    if (input.kind != InputKind::road && input.kind != InputKind::wide && !driver) {
      reader.input(sample, input.kind, floats(i));
      continue;
    }
    std::vector<uint8_t> own;
    std::span<uint8_t> picture(reinterpret_cast<uint8_t*>(to[i]), static_cast<size_t>(input.shape.elements()));
    if (input.dtype != DType::u8) {
      own.resize(picture.size());
      picture = own;
    }
    if (options_.blank) std::ranges::fill(picture, kGrey);
    else reader.picture(sample, input.kind, picture);
    if (changed && driver) change_luma(change, picture);
    for (size_t half = 0; changed && !driver && half < 2; ++half) {
      change_frame(change, input.kind == InputKind::wide,
                   picture.subspan(half * drive::kFrameBytes, drive::kFrameBytes), scratch);
    }
    if (input.dtype != DType::u8) std::copy(own.begin(), own.end(), floats(i).begin());
  }
  for (size_t i = info_.inputs.size(); i < fields_.size(); ++i) {
    if (fields_[i].name == kSpeed) floats(i)[0] = reader.speed(sample);
    else if (index >= size()) std::ranges::fill(floats(i), 0.0F);
    else reader.target(sample, fields_[i].name, floats(i));
  }
}

void Dataset::check(const std::function<void(double)>& progress) const {
  for (size_t i = 0; i < readers_.size(); ++i) {
    readers_[i]->check();
    if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(readers_.size()));
  }
  for (const std::string& name : clip_names(folder_, kFramesEnd)) {
    if (const fs::path rows = rows_file(folder_, name); !fs::exists(rows)) {
      fail("{}: pictures without {}: their clip is in no sample; build it again, or remove them",
           frames_file(folder_, name).string(), rows.filename().string());
    }
  }
}

std::string Dataset::fingerprint() const {
  Fnv hash;
  hash.text(info_.id());
  for (size_t i = 0; i < clips_.size(); ++i) {
    const Clip& clip = clips_[i];
    hash.text(fmt::format("|{} {} {} {} {}", clip.name, clip.size, clip.rows, clip.pictures, readers_[i]->hash()));
    if (const int64_t remembered = readers_[i]->remembered(); remembered > 0) hash.text(fmt::format(" {}", remembered));
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace sparkpilot::train
