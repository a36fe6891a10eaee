#include "train/dataset_clip.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/with_file.h"

namespace sparkpilot::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPictures = "pictures";
// A clip is a minute; a file that claims more rows than a day has is not one.
constexpr int64_t kMaxRows = 20 * 3600 * 24;

// Columns of one float a row.
using FloatColumn = std::pair<const char*, float Step::*>;
constexpr FloatColumn kDriving[] = {{"speed", &Step::speed},
                                    {"steer_delay", &Step::steer_delay},
                                    {"lateral_time", &Step::lateral_time},
                                    {"longitudinal_time", &Step::longitudinal_time},
                                    {"curvature", &Step::curvature}};
constexpr FloatColumn kDriver[] = {{"roll", &Step::roll}, {"pitch", &Step::pitch}, {"yaw", &Step::yaw}};

std::span<const FloatColumn> float_columns(const DatasetInfo& info) {
  return info.of_driver() ? std::span<const FloatColumn>(kDriver) : std::span<const FloatColumn>(kDriving);
}

bool finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Networks that compute in 16 bits give values that 16 bits hold: then nothing is lost in half the space.
bool fits_half(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return static_cast<float>(Half(v)) == v; });
}

Tensor floats_tensor(const Shape& shape, const std::vector<float>& values, bool round = false) {
  const Tensor tensor = Tensor::of<float>(shape, values);
  return round || fits_half(values) ? convert(tensor, DType::f16) : tensor;
}

// A teacher's outputs are rounded to 16 bits, unless one is too large for them.
bool in_range(const std::vector<float>& values) {
  constexpr float kLargestHalf = 65504;
  return std::all_of(values.begin(), values.end(), [](float v) { return std::fabs(v) <= kLargestHalf; });
}

std::string outputs_column(const char* what, const DatasetNetwork& network) {
  return fmt::format("{}.{}", what, network.role);
}

std::string kept_column(const std::string& labels) { return labels + ".columns"; }

// Most of labels is zero in all samples, such as scales and other hypotheses: only the rest is stored, and which
// columns it is.
void add_labels(SafetensorsFile& file, const std::string& name, const std::vector<std::vector<float>>& rows,
                int64_t width) {
  std::vector<int64_t> kept;
  for (int64_t k = 0; k < width; ++k) {
    if (std::ranges::any_of(rows, [&](const auto& row) { return row[static_cast<size_t>(k)] != 0; })) kept.push_back(k);
  }
  if (kept.empty()) kept.push_back(0);
  std::vector<float> values;
  for (const std::vector<float>& row : rows) {
    for (const int64_t k : kept) values.push_back(row[static_cast<size_t>(k)]);
  }
  file.tensors.emplace_back(name, floats_tensor(Shape{std::ssize(rows), std::ssize(kept)}, values));
  file.tensors.emplace_back(kept_column(name), Tensor::of<int64_t>(Shape{std::ssize(kept)}, kept));
}

}  // namespace

// ---------------------------------------------------------------- writing
ClipWriter::ClipWriter(const DatasetInfo& info) : info_(info) {}

void ClipWriter::reset() {
  memory_.clear();
  ran_ = 0;
}

void ClipWriter::begin(const fs::path& folder, const std::string& clip, const std::string& route) {
  abandon();
  folder_ = folder, clip_ = clip, route_ = route;
  frames_.emplace(frames_file(folder, clip),
                  std::vector<SafetensorsWriter::Column>{{kPictures, DType::u8, info_.picture()}},
                  // More than a clip could need: the header does not grow with what is reserved.
                  Shape::kMaxElements / info_.picture().elements(),
                  std::map<std::string, std::string>{{"dataset", info_.id()}, {"clip", clip}});
  for (Remembered& old : memory_) old.row = put_row(old.step);
  before_ = std::ssize(rows_);
}

int64_t ClipWriter::put_row(const Step& step) {
  rows_.push_back(step);
  rows_.back().pictures = nullptr;
  picture_.push_back(-1);
  sample_.push_back(-1);
  remembered_.push_back(0);
  return std::ssize(rows_) - 1;
}

void ClipWriter::remember(Step step, int64_t row) {
  ran_ += step.ran;
  memory_.push_back({std::move(step), row});
  // A pulse is a change, so that one desire more than kMemory is needed.
  while (std::ssize(memory_) > kMemory + 2 && ran_ - memory_.front().step.ran > kMemory) {
    ran_ -= memory_.front().step.ran;
    memory_.pop_front();
  }
  // Of the others a sample may still need what its memory holds, and the frame before each of these.
  const auto gap = static_cast<size_t>(info_.contract.frame_gap);
  const auto forget_pictures = [&](size_t ago) {
    if (memory_.size() > ago) memory_[memory_.size() - 1 - ago].step.pictures = nullptr;
  };
  if (memory_.size() <= gap + 1) return;
  const int64_t frame = memory_[memory_.size() - gap - 2].step.frame_id;
  if (info_.of_driver() || !(is_due(frame) || is_due(frame + info_.contract.frame_gap))) forget_pictures(gap + 1);
  forget_pictures(kMemory + 2 + gap);  // frames that did not run count nothing in the memory, however many they are
}

void ClipWriter::check_finite(const Step& step, const Targets* targets) const {
  const auto check = [&](std::span<const float> values, const char* what) {
    if (!finite(values)) fail("{}: frame {}: {} are not finite numbers", clip_, step.frame_id, what);
  };
  check(step.features, "the teacher's features");
  for (const auto& [name, value] : float_columns(info_)) check({&(step.*value), 1}, name);
  if (!targets) return;
  for (const auto& flat : targets->teacher) check(flat, "the teacher's outputs");
  for (const auto& flat : targets->labels) check(flat, "labels");
  check(targets->plan, "points of the driven path");
}

int64_t ClipWriter::store_picture(Remembered& at) {
  int64_t& picture = picture_[static_cast<size_t>(at.row)];
  if (picture >= 0) return picture;
  if (!at.step.pictures) fail_internal("{}: frame {} has no pictures any more", clip_, at.step.frame_id);
  const std::vector<uint8_t>& bytes = *at.step.pictures;
  for (int camera = 0; camera < info_.cameras(); ++camera) {
    const std::byte* const row[] = {
        reinterpret_cast<const std::byte*>(bytes.data() + camera * info_.picture().elements())};
    frames_->append(row);
  }
  hash_.bytes(bytes.data(), bytes.size());
  return picture = counts_.pictures++;
}

bool ClipWriter::can_store_pair(size_t place) const {
  const auto gap = static_cast<size_t>(info_.contract.frame_gap);
  const auto there = [&](const Remembered& at) {
    return at.step.pictures || picture_[static_cast<size_t>(at.row)] >= 0;
  };
  // A reader takes the row so many before it, and nothing where there is none.
  return there(memory_[place]) &&
         (place >= gap ? there(memory_[place - gap]) : memory_[place].row < info_.contract.frame_gap);
}

// The pictures of a frame of the memory and of the one frame_gap before it, where there is one.
void ClipWriter::store_pair(size_t place) {
  const auto gap = static_cast<size_t>(info_.contract.frame_gap);
  if (place >= gap) store_picture(memory_[place - gap]);
  store_picture(memory_[place]);
}

// Of the frames whose features the newest one's inputs hold (ClipReader::feature_rows()), and that are due but no
// samples. Not of those before the clip: whether they are samples of another one is not known here.
void ClipWriter::store_remembered() {
  if (info_.of_driver()) return;
  const drive::DrivingContract& contract = info_.contract;
  int64_t age = -(contract.merged ? contract.context_stride : 0);  // of frames that ran
  for (size_t place = memory_.size(); place-- > 0;) {
    const Remembered& old = memory_[place];
    if (old.row < before_ || age >= contract.features * contract.context_stride) break;
    if (!old.step.ran) continue;
    const bool read = age >= 0 && age % contract.context_stride == 0;
    ++age;
    const auto row = static_cast<size_t>(old.row);
    if (!read || sample_[row] >= 0 || remembered_[row] || !is_due(old.step.frame_id) || !can_store_pair(place))
      continue;
    store_pair(place);
    remembered_[row] = 1;
  }
}

void ClipWriter::add(Step step, const Targets* targets, const std::string& why) {
  check_finite(step, targets);
  if (!frames_) return remember(std::move(step), -1);
  const int64_t row = put_row(step);
  ++counts_.frames;
  remember(std::move(step), row);
  if (!targets) {
    if (!why.empty()) ++counts_.left_out[why];
    return;
  }
  store_pair(memory_.size() - 1);
  sample_[static_cast<size_t>(row)] = std::ssize(targets_);
  targets_.push_back(*targets);
  store_remembered();
}

SafetensorsFile ClipWriter::rows_of(std::map<std::string, std::string> metadata) const {
  SafetensorsFile file{{}, std::move(metadata)};
  const auto rows = std::ssize(rows_), samples = std::ssize(targets_);
  const auto ints = [&](const char* name, auto&& get) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < rows_.size(); ++i) values.push_back(get(i));
    file.tensors.emplace_back(name, Tensor::of<int64_t>(Shape{rows}, values));
  };
  ints("frame_id", [&](size_t i) { return rows_[i].frame_id; });
  ints("time", [&](size_t i) { return rows_[i].time; });
  ints("picture", [&](size_t i) { return picture_[i]; });
  ints("sample", [&](size_t i) { return sample_[i]; });
  if (std::ranges::find(remembered_, 1) != remembered_.end()) {
    ints("remembered", [&](size_t i) { return remembered_[i]; });
  }
  if (!info_.of_driver()) {
    ints("desire", [&](size_t i) { return int64_t{rows_[i].desire}; });
    ints("ran", [&](size_t i) { return int64_t{rows_[i].ran}; });
    ints("right_hand_drive", [&](size_t i) { return int64_t{rows_[i].right_hand_drive}; });
  }
  for (const auto& [name, value] : float_columns(info_)) {
    std::vector<float> values;
    for (const Step& step : rows_) values.push_back(step.*value);
    file.tensors.emplace_back(name, Tensor::of<float>(Shape{rows}, values));
  }
  if (info_.teacher && !info_.of_driver()) {
    std::vector<float> values;
    const std::vector<float> none(drive::kFeatures);
    for (const Step& step : rows_) {
      const std::vector<float>& row = step.features.empty() ? none : step.features;
      values.insert(values.end(), row.begin(), row.end());
    }
    file.tensors.emplace_back("features", floats_tensor(Shape{rows, drive::kFeatures}, values));
  }
  for (size_t n = 0; n < info_.networks.size(); ++n) {
    const DatasetNetwork& network = info_.networks[n];
    if (info_.teacher) {
      std::vector<float> values;
      for (const Targets& t : targets_) values.insert(values.end(), t.teacher[n].begin(), t.teacher[n].end());
      file.tensors.emplace_back(outputs_column("teacher", network),
                                floats_tensor(Shape{samples, network.width}, values, in_range(values)));
    }
    if (info_.source == Source::synthetic) {
      std::vector<std::vector<float>> labels;
      for (const Targets& t : targets_) labels.push_back(t.labels[n]);
      add_labels(file, outputs_column("labels", network), labels, network.width);
    }
  }
  if (info_.of_driver()) return file;
  std::vector<float> plans, valid;
  for (const Targets& t : targets_) {
    plans.insert(plans.end(), t.plan.begin(), t.plan.end());
    valid.insert(valid.end(), t.valid.begin(), t.valid.end());
  }
  file.tensors.emplace_back("driven.plan", Tensor::of<float>(Shape{samples, drive::kPoints, drive::kPlanWidth}, plans));
  file.tensors.emplace_back("driven.valid", Tensor::of<float>(Shape{samples, drive::kPoints}, valid));
  return file;
}

ClipCounts ClipWriter::commit() {
  counts_.samples = std::ssize(targets_);
  nlohmann::json left_out = counts_.left_out;
  const SafetensorsFile rows = rows_of({{"dataset", info_.id()},
                                        {"clip", clip_},
                                        {"route", route_},
                                        {"left_out", json_text(left_out)},
                                        {"pictures_hash", fmt::format("{:016x}", hash_.value())}});
  frames_->commit();
  save_safetensors(rows_file(folder_, clip_), rows);
  for (const fs::path& file : {frames_file(folder_, clip_), rows_file(folder_, clip_)})
    counts_.bytes += static_cast<int64_t>(fs::file_size(file));
  const ClipCounts counts = counts_;
  abandon();
  return counts;
}

void ClipWriter::abandon() {
  frames_.reset();
  rows_.clear(), picture_.clear(), sample_.clear(), remembered_.clear(), targets_.clear();
  hash_ = Fnv();
  counts_ = {};
  for (Remembered& old : memory_) old.row = -1;
}

// ---------------------------------------------------------------- reading
namespace {

std::string metadata_of(const SafetensorsReader& reader, const std::string& key) {
  const auto found = reader.metadata().find(key);
  if (found == reader.metadata().end()) fail("it is no shard of a data set: its metadata lacks \"{}\"", key);
  return found->second;
}

void check_owner(const SafetensorsReader& reader, const std::string& clip, const DatasetInfo& info) {
  if (const std::string id = metadata_of(reader, "dataset"); id != info.id()) {
    fail("it belongs to another data set ({}, this one is {}): made with another teacher or other options", id,
         info.id());
  }
  if (const std::string name = metadata_of(reader, "clip"); name != clip) fail("it is the shard of clip {}", name);
}

// `width`: of a row's elements; f16 stands for f32 where the table says floats.
void check_column(const SafetensorsReader& reader, const std::string& name, DType dtype, int64_t rows, int64_t width) {
  const auto* const entry = reader.find(name);
  if (!entry) fail("it has no tensor \"{}\"", name);
  const bool half = dtype == DType::f32 && entry->dtype == DType::f16;
  if (entry->dtype != dtype && !half) {
    fail("tensor \"{}\" is {}, expected {}", name, sparkpilot::name(entry->dtype), sparkpilot::name(dtype));
  }
  if (entry->shape.rank() == 0 || entry->shape[0] != rows || entry->shape.elements() != rows * width) {
    fail("tensor \"{}\" has shape {}, expected {} rows of {}", name, entry->shape.str(), rows, width);
  }
}

}  // namespace

ClipReader::ClipReader(const fs::path& folder, const std::string& clip, const DatasetInfo& info)
    : clip_(clip),
      rows_file_(rows_file(folder, clip)),
      frames_file_(frames_file(folder, clip)),
      contract_(info.contract),
      teacher_(info.teacher),
      cameras_(info.cameras()),
      picture_bytes_(info.picture().elements()) {
  with_file(rows_file_.path(), [&] { open_rows(info); });
  with_file(frames_file_.path(), [&] { open_frames(info); });
  with_file(rows_file_.path(), [&] { check_pictures(); });
}

void ClipReader::open_rows(const DatasetInfo& info) {
  check_owner(rows_file_, clip_, info);
  route_ = metadata_of(rows_file_, "route");
  hash_ = metadata_of(rows_file_, "pictures_hash");
  const nlohmann::ordered_json left_out = parse_json_or_discard(metadata_of(rows_file_, "left_out"));
  for (const auto& [why, count] : left_out.items()) {
    if (left_out.is_object() && count.is_number_unsigned()) left_out_[why] = count.get<int64_t>();
  }
  const auto* const first = rows_file_.find("frame_id");
  const int64_t rows = first ? first->rows() : 0;
  if (rows > kMaxRows) fail("it has {} rows, at most {} are expected", rows, kMaxRows);
  const auto ints = [&](const std::string& name, int64_t low, int64_t high) {
    check_column(rows_file_, name, DType::i64, rows, 1);
    std::vector<int64_t> values(static_cast<size_t>(rows));
    rows_file_.read(name, 0, rows, reinterpret_cast<std::byte*>(values.data()));
    for (const int64_t value : values) {
      if (value < low || value > high) fail("tensor \"{}\" holds {}, expected {} to {}", name, value, low, high);
    }
    return values;
  };
  constexpr int64_t kAny = int64_t{1} << 62;
  frame_id_ = ints("frame_id", 0, kAny);
  time_ = ints("time", 0, kAny);
  picture_ = ints("picture", -1, kMaxRows);
  const bool driver = info.of_driver();
  const auto sample = ints("sample", -1, kMaxRows);
  std::vector<int64_t> remembered(static_cast<size_t>(rows), 0);
  if (rows_file_.find("remembered")) remembered = ints("remembered", 0, 1);
  std::vector<int64_t> ran(static_cast<size_t>(rows), 1);
  if (!driver) {
    desire_ = ints("desire", 0, drive::kDesires - 1);
    ran = ints("ran", 0, 1);
    const auto hand = ints("right_hand_drive", 0, 1);
    columns_["right_hand_drive"].assign(hand.begin(), hand.end());
  }
  for (const auto& [name, member] : float_columns(info)) {
    check_column(rows_file_, name, DType::f32, rows, 1);
    columns_[name].resize(static_cast<size_t>(rows));
    if (rows > 0) {
      std::vector<float>& values = columns_[name];
      if (rows_file_.find(name)->dtype != DType::f32) fail("tensor \"{}\" is not f32", name);
      rows_file_.read(name, 0, rows, reinterpret_cast<std::byte*>(values.data()));
      if (!finite(values)) fail("tensor \"{}\" has values that are not finite", name);
    }
  }
  for (size_t row = 0; row < ran.size(); ++row) {
    ran_before_.push_back(std::ssize(ran_rows_));
    if (ran[row]) ran_rows_.push_back(static_cast<int64_t>(row));
    if (remembered[row]) {
      if (sample[row] >= 0 || !ran[row]) fail("row {} cannot be remembered", row);
      remembered_row_.push_back(static_cast<int64_t>(row));
    }
    if (sample[row] < 0) continue;
    if (sample[row] != samples() || !ran[row]) fail("row {} cannot be sample {}", row, sample[row]);
    sample_row_.push_back(static_cast<int64_t>(row));
  }
  if (teacher_ && !driver) check_column(rows_file_, "features", DType::f32, rows, drive::kFeatures);
  for (const DatasetNetwork& network : info.networks) {
    if (info.teacher)
      check_column(rows_file_, outputs_column("teacher", network), DType::f32, samples(), network.width);
    if (info.source != Source::synthetic) continue;
    const std::string labels = outputs_column("labels", network);
    int64_t width = network.width;
    if (const auto* const columns = rows_file_.find(kept_column(labels))) {  // else all are stored
      width = columns->rows();
      check_column(rows_file_, kept_column(labels), DType::i64, width, 1);
      if (width < 1 || width > network.width) fail("tensor \"{}\" has {} columns", kept_column(labels), width);
      std::vector<int64_t>& kept = kept_[labels];
      kept.resize(static_cast<size_t>(width));
      rows_file_.read(kept_column(labels), 0, width, reinterpret_cast<std::byte*>(kept.data()));
      const bool rising = std::ranges::adjacent_find(kept, std::greater_equal()) == kept.end();
      if (!rising || kept.front() < 0 || kept.back() >= network.width) {
        fail("tensor \"{}\" does not hold rising columns below {}", kept_column(labels), network.width);
      }
    }
    check_column(rows_file_, labels, DType::f32, samples(), width);
  }
  if (driver) return;
  check_column(rows_file_, "driven.plan", DType::f32, samples(), kPlanValues);
  check_column(rows_file_, "driven.valid", DType::f32, samples(), drive::kPoints);
}

void ClipReader::open_frames(const DatasetInfo& info) {
  check_owner(frames_file_, clip_, info);
  const auto* const entry = frames_file_.find(kPictures);
  if (!entry || entry->rows() % cameras_ != 0) fail("it has no tensor \"{}\" of {} a frame", kPictures, cameras_);
  check_column(frames_file_, kPictures, DType::u8, entry->rows(), picture_bytes_);
  pictures_ = entry->rows() / cameras_;
  for (const SafetensorsReader* reader : {&rows_file_, &frames_file_})
    bytes_ += static_cast<int64_t>(fs::file_size(reader->path()));
}

void ClipReader::check_pictures() const {
  for (int64_t i = 0; i < samples() + remembered(); ++i) {
    const int64_t row = row_of(i);
    for (const int64_t at : {row, row - contract_.frame_gap}) {
      if (at < 0) continue;  // nothing was before it
      const int64_t picture = picture_[static_cast<size_t>(at)];
      if (picture < 0 || picture >= pictures_) {
        fail("row {} needs picture {}, there are {}", row, picture, pictures_);
      }
    }
  }
}

float ClipReader::column(const char* name, int64_t row) const { return columns_.at(name)[static_cast<size_t>(row)]; }

void ClipReader::floats(const std::string& name, int64_t row, std::span<float> out) const {
  if (rows_file_.find(name)->dtype == DType::f16) {
    std::vector<Half> halves(out.size());
    rows_file_.read(name, row, 1, reinterpret_cast<std::byte*>(halves.data()));
    std::transform(halves.begin(), halves.end(), out.begin(), [](Half h) { return static_cast<float>(h); });
  } else {
    rows_file_.read(name, row, 1, reinterpret_cast<std::byte*>(out.data()));
  }
  if (!finite(out)) fail("{}: tensor \"{}\", row {}: not finite", rows_file_.path().string(), name, row);
}

void ClipReader::target(int64_t sample, const std::string& name, std::span<float> out) const {
  const auto found = kept_.find(name);
  if (found == kept_.end()) return floats(name, sample, out);
  std::vector<float> values(found->second.size());
  floats(name, sample, values);
  std::ranges::fill(out, 0.0F);
  for (size_t i = 0; i < values.size(); ++i) out[static_cast<size_t>(found->second[i])] = values[i];
}

void ClipReader::picture(int64_t sample, InputKind kind, std::span<uint8_t> out) const {
  if (kind == InputKind::driver) {
    const int64_t at = picture_[static_cast<size_t>(row_of(sample))];
    return frames_file_.read(kPictures, at, 1, reinterpret_cast<std::byte*>(out.data()));
  }
  const int64_t camera = kind == InputKind::wide ? 1 : 0;
  for (int newer = 0; newer < 2; ++newer) {
    const auto to = out.subspan(static_cast<size_t>(newer) * drive::kFrameBytes, drive::kFrameBytes);
    const int64_t row = row_of(sample) - (newer ? 0 : contract_.frame_gap);
    if (row < 0) {
      std::fill(to.begin(), to.end(), uint8_t{0});
      continue;
    }
    frames_file_.read(kPictures, kCameras * picture_[static_cast<size_t>(row)] + camera, 1,
                      reinterpret_cast<std::byte*>(to.data()));
  }
}

// As drive::DesirePulse and History::sample_max() make them.
void ClipReader::desires(int64_t row, std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0F);
  for (int64_t age = 0; age < kMemory && age <= row; ++age) {
    const int64_t desire = desire_[static_cast<size_t>(row - age)];
    const int64_t before = age < row ? desire_[static_cast<size_t>(row - age - 1)] : 0;
    if (desire == 0 || desire == before) continue;
    const int64_t group = contract_.desires - 1 - age / contract_.context_stride;
    out[static_cast<size_t>(group * drive::kDesires + desire)] = 1;
  }
}

// Of the frames that ran, as History::sample() takes them: two networks see this frame's features, one does not.
std::vector<int64_t> ClipReader::feature_rows(int64_t sample) const {
  std::vector<int64_t> out;
  const int64_t newest =
      ran_before_[static_cast<size_t>(row_of(sample))] - (contract_.merged ? contract_.context_stride : 0);
  for (int64_t i = 0; i < contract_.features; ++i) {
    const int64_t at = newest - (contract_.features - 1 - i) * contract_.context_stride;
    out.push_back(at < 0 ? -1 : ran_rows_[static_cast<size_t>(at)]);
  }
  return out;
}

void ClipReader::features(int64_t sample, std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0F);
  if (!teacher_) return;
  const std::vector<int64_t> rows = feature_rows(sample);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= 0) floats("features", rows[i], out.subspan(i * drive::kFeatures, drive::kFeatures));
  }
}

void ClipReader::curvatures(int64_t row, std::span<float> out) const {
  const int64_t newest = ran_before_[static_cast<size_t>(row)] - 1, rows = std::ssize(out);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = newest - (rows - 1 - i) * contract_.context_stride;
    out[static_cast<size_t>(i)] = at < 0 ? 0 : column("curvature", ran_rows_[static_cast<size_t>(at)]);
  }
}

void ClipReader::input(int64_t sample, InputKind kind, std::span<float> out) const {
  const int64_t row = row_of(sample);
  switch (kind) {
    case InputKind::desire: return desires(row, out);
    case InputKind::features: return features(sample, out);
    case InputKind::curvature: return curvatures(row, out);
    case InputKind::traffic: {
      const float right = column("right_hand_drive", row);
      out[0] = 1 - right, out[1] = right;
      return;
    }
    case InputKind::lateral: out[0] = column("speed", row), out[1] = column("steer_delay", row); return;
    case InputKind::action_times:
      out[0] = column("lateral_time", row), out[1] = column("longitudinal_time", row);
      return;
    case InputKind::calibration:
      for (size_t i = 0; i < std::size(kDriver); ++i) out[i] = column(kDriver[i].first, row);
      return;
    case InputKind::road:
    case InputKind::wide:
    case InputKind::driver: {
      std::vector<uint8_t> bytes(out.size());
      picture(sample, kind, bytes);
      std::copy(bytes.begin(), bytes.end(), out.begin());
      return;
    }
  }
}

void ClipReader::check() const {
  Fnv hash;
  std::vector<uint8_t> bytes(static_cast<size_t>(cameras_ * picture_bytes_));
  for (int64_t i = 0; i < pictures_; ++i) {
    frames_file_.read(kPictures, cameras_ * i, cameras_, reinterpret_cast<std::byte*>(bytes.data()));
    hash.bytes(bytes.data(), bytes.size());
  }
  if (fmt::format("{:016x}", hash.value()) != hash_) {
    fail("{}: its pictures are not those that were written", frames_file_.path().string());
  }
  std::vector<float> values;
  for (const auto& entry : rows_file_.entries()) {
    if (entry.dtype != DType::f16 && entry.dtype != DType::f32) continue;
    values.resize(static_cast<size_t>(entry.rows() == 0 ? 0 : entry.shape.elements() / entry.rows()));
    for (int64_t row = 0; row < entry.rows(); ++row) floats(entry.name, row, values);
  }
}

}  // namespace sparkpilot::train
