#include "route/log/model_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/statistics.h"
#include "route/log/reader.h"
#include "route/log/route.h"

namespace sparkpilot::drive {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::infinity();
constexpr size_t kWorst = 3;

template <typename Record>
struct Pair {
  uint32_t frame_id;
  const Record *ours, *reference;
};

struct FrameOutcome {
  uint32_t frame_id = 0;
  double largest = 0;
  bool beyond = false;
};

// 0 for equal numbers, including NaN on both sides; kNoNumber if only one is a finite number.
double difference(double a, double b) {
  if ((std::isnan(a) && std::isnan(b)) || a == b) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : kNoNumber;
}

FrameOutcome compare_frame(const FieldValues& a, const FieldValues& b, FieldComparison& out,
                           std::vector<double>& differences) {
  FrameOutcome frame;
  if (a.lengths != b.lengths) {
    ++out.length_differences;
    return {0, kNoNumber, true};
  }
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i], y = b.values[i], d = difference(x, y);
    frame.largest = std::max(frame.largest, d);
    if (d == kNoNumber) {
      ++out.nan_differences;
      frame.beyond = true;
    } else {
      if (!std::isnan(x)) differences.push_back(d);
      if (d > 0 && d > out.tolerance.absolute + out.tolerance.relative * std::max(std::abs(x), std::abs(y))) {
        ++out.beyond;
        frame.beyond = true;
      }
    }
  }
  return frame;
}

void sum_up(const std::vector<double>& differences, FieldComparison& out) {
  out.values = static_cast<int64_t>(differences.size());
  if (differences.empty()) return;
  const Statistics s = summarize(differences);
  double squares = 0;
  for (const double d : differences) squares += d * d;
  out.mean_abs = s.mean, out.p99 = s.p99, out.max = s.max;
  out.rms = std::sqrt(squares / static_cast<double>(differences.size()));
}

std::vector<FrameDifference> worst_of(std::vector<FrameOutcome> frames) {
  std::erase_if(frames, [](const FrameOutcome& frame) { return frame.largest == 0; });
  std::stable_sort(frames.begin(), frames.end(), [](const FrameOutcome& a, const FrameOutcome& b) {
    return a.beyond != b.beyond ? a.beyond : a.largest > b.largest;
  });
  std::vector<FrameDifference> out;
  for (size_t i = 0; i < std::min(frames.size(), kWorst); ++i) {
    out.push_back({frames[i].frame_id, {}});
    if (frames[i].largest != kNoNumber) out.back().difference = frames[i].largest;
  }
  return out;
}

template <typename Record>
FieldComparison compare_field(const RecordField<Record>& field, const Tolerance& tolerance,
                              const std::vector<Pair<Record>>& pairs) {
  FieldComparison out{.name = field.info.name, .unit = field.info.unit, .tolerance = tolerance};
  std::vector<double> differences;
  std::vector<FrameOutcome> frames;
  out.absent_in_ours = out.absent_in_reference = true;
  for (const Pair<Record>& pair : pairs) {
    FieldValues a, b;
    field.get(*pair.ours, a);
    field.get(*pair.reference, b);
    out.absent_in_ours = out.absent_in_ours && a.values.empty();
    out.absent_in_reference = out.absent_in_reference && b.values.empty();
    frames.push_back(compare_frame(a, b, out, differences));
    frames.back().frame_id = pair.frame_id;
  }
  if (out.absent_in_reference) {  // nothing to compare with
    out.length_differences = 0;
    return out;
  }
  sum_up(differences, out);
  out.worst = worst_of(std::move(frames));
  out.ok = out.beyond + out.nan_differences + out.length_differences == 0;
  return out;
}

template <typename Record>
bool any_has(std::span<const Record> records, const RecordField<Record>& field) {
  return std::any_of(records.begin(), records.end(), [&](const Record& record) {
    FieldValues values;
    field.get(record, values);
    return !values.values.empty();
  });
}

struct Counts {
  int64_t frames = 0, only_ours = 0, only_reference = 0, repeated = 0;
};

// `tolerances[first]` belongs to fields[0].
template <typename Record>
Counts compare(std::span<const Record> ours, std::span<const Record> reference,
               std::span<const RecordField<Record>> fields, const Tolerances& tolerances, size_t first,
               std::vector<FieldComparison>& out) {
  Counts counts;
  const auto a = by_frame(ours), b = by_frame(reference);
  counts.repeated = std::ssize(ours) - std::ssize(a) + std::ssize(reference) - std::ssize(b);
  std::vector<Pair<Record>> pairs;
  for (const auto& [frame_id, record] : a) {
    const auto other = b.find(frame_id);
    if (other != b.end()) pairs.push_back({frame_id, record, other->second});
  }
  counts.frames = static_cast<int64_t>(pairs.size());
  counts.only_ours = static_cast<int64_t>(a.size()) - counts.frames;
  counts.only_reference = static_cast<int64_t>(b.size()) - counts.frames;
  for (size_t i = 0; i < fields.size(); ++i) {
    out.push_back(compare_field(fields[i], tolerances[first + i], pairs));
    // A field whose frames the reference lacks is shown as not compared, instead of left out as if neither side had it.
    if (reference.empty()) out.back().absent_in_ours = !any_has(ours, fields[i]);
  }
  return counts;
}

template <typename Record>
void read_log(const std::filesystem::path& file, cereal::Event::Which kind,
              Record (*read)(const cereal::Event::Reader&), std::vector<Record>& out, std::vector<std::string>* notes) {
  LogReader reader(file);
  int64_t unreadable = 0;
  while (reader.next()) {
    if (!reader.known() || reader.event().which() != kind) continue;
    if (!read_fields([&] { out.push_back(read(reader.event())); })) ++unreadable;
  }
  if (!notes) return;
  if (!reader.damage().empty()) notes->push_back(fmt::format("{}: {}", file.string(), reader.damage()));
  if (unreadable) {
    const std::string name = event_kinds().at(static_cast<size_t>(kind));
    notes->push_back(fmt::format("{}: {} damaged {} left out", file.string(), unreadable, name));
  }
}

template <typename Record>
std::vector<Record> read_all(const std::filesystem::path& path, cereal::Event::Which kind,
                             Record (*read)(const cereal::Event::Reader&), std::vector<std::string>* notes) {
  std::vector<Record> out;
  if (!std::filesystem::is_directory(path)) {
    read_log(path, kind, read, out, notes);
    return out;
  }
  const Route route = find_route(path.string());
  bool any = false;
  for (const Segment& segment : route.segments) {
    const std::filesystem::path& log = route.log(segment);
    if (log.empty()) continue;
    read_log(log, kind, read, out, notes);
    any = true;
  }
  if (!any) fail("{}: no log in it", path.string());
  return out;
}

}  // namespace

bool ModelComparison::ok() const {
  const auto none = [&](Outcome outcome) {
    return std::none_of(fields.begin(), fields.end(), [&](const auto& f) { return f.outcome() == outcome; });
  };
  return frames > 0 && only_reference == 0 && none(Outcome::beyond) && !none(Outcome::within);
}

ModelComparison compare_models(std::span<const ModelRecord> ours, std::span<const ModelRecord> reference,
                               const Tolerances& tolerances) {
  ModelComparison out;
  const Counts counts = compare(ours, reference, model_fields(), tolerances, 0, out.fields);
  out.frames = counts.frames;
  out.only_ours = counts.only_ours;
  out.only_reference = counts.only_reference;
  out.repeated = counts.repeated;
  return out;
}

void compare_drivers(std::span<const DriverRecord> ours, std::span<const DriverRecord> reference,
                     const Tolerances& tolerances, ModelComparison& out) {
  const Counts counts = compare(ours, reference, driver_fields(), tolerances, model_fields().size(), out.fields);
  out.driver_frames = counts.frames;
  out.repeated += counts.repeated;
}

std::vector<ModelRecord> read_models(const std::filesystem::path& path, std::vector<std::string>* notes) {
  return read_all(path, cereal::Event::MODEL_V2, read_model, notes);
}

std::vector<DriverRecord> read_drivers(const std::filesystem::path& path) {
  return read_all(path, cereal::Event::DRIVER_STATE_V2, read_driver, nullptr);
}

}  // namespace sparkpilot::drive
