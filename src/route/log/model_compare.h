// Is it still the same model? Two lists of modelV2 messages, aligned by frame and compared field by field, as
// openpilot's model_replay does for a change (selfdrive/test/process_replay/model_replay.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "route/log/model_fields.h"

namespace sparkpilot::drive {

// One for each field of all_fields(); by default those of the tables.
class Tolerances {
 public:
  Tolerances();
  // {"position_x": {"absolute": 0.1, "relative": 0.01}, ...}: fields that the file does not name keep their tolerance.
  // Fails (user) naming the file if it is not such JSON, a number is negative or a field unknown (with the known ones).
  static Tolerances load(const std::filesystem::path& file);

  // Fails (user) on an unknown field or a number that is negative or not finite.
  void set(std::string_view field, const Tolerance& tolerance);
  // Multiplies everything by `factor`, 0 or more.
  void scale(double factor);
  const Tolerance& operator[](size_t field) const { return list_[field]; }

 private:
  std::vector<Tolerance> list_;
};

struct FrameDifference {
  uint32_t frame_id = 0;
  std::optional<double> difference = {};  // the frame's largest; empty: no number on one side, or different lengths
};

// The result of comparing a field. Not compared: the reference has no such field, or no frame is in both.
enum class Outcome { within, beyond, not_compared };
std::string_view to_text(Outcome outcome);  // "within", "beyond", "not compared"

struct FieldComparison {
  std::string name, unit;
  Tolerance tolerance;
  int64_t values = 0;  // numbers on both sides, on which the next ones are based
  std::optional<double> mean_abs = {}, rms = {}, p99 = {}, max = {};
  int64_t beyond = 0;                       // numbers beyond the tolerance
  int64_t nan_differences = 0;              // NaN on one side, or different infinities; NaN on both is equal
  int64_t length_differences = 0;           // frames whose lists differ in length; their numbers are not compared
  std::vector<FrameDifference> worst = {};  // up to three that differ, those beyond the tolerance first
  // No common frame of that side has the field: its era did not log it. If the reference has no frames at all, all of
  // ours count. If only ours lacks the field, it is beyond the tolerance.
  bool absent_in_ours = false, absent_in_reference = false;
  bool ok = true;  // not beyond its tolerance; also true if not compared
  Outcome outcome() const {
    return !ok ? Outcome::beyond : absent_in_reference ? Outcome::not_compared : Outcome::within;
  }
};

struct ModelComparison {
  int64_t frames = 0;  // in both
  int64_t only_ours = 0, only_reference = 0;
  int64_t driver_frames = 0;            // in both
  int64_t repeated = 0;                 // messages that a later one of the same frame replaced
  std::vector<FieldComparison> fields;  // as model_fields() has them
  // At least one field was compared, none is beyond its tolerance, and ours lacks no frame of the reference. Frames of
  // only ours do not matter: a decimated log, as the reference, has one in forty.
  bool ok() const;
};

ModelComparison compare_models(std::span<const ModelRecord> ours, std::span<const ModelRecord> reference,
                               const Tolerances& tolerances = {});

// Adds the fields of driverStateV2, aligned by the driver camera's frames.
void compare_drivers(std::span<const DriverRecord> ours, std::span<const DriverRecord> reference,
                     const Tolerances& tolerances, ModelComparison& out);

nlohmann::ordered_json to_json(const ModelComparison& comparison);
// "0.05 + 2 %": the percentage is of the larger of the two sizes.
std::string to_text(const Tolerance& tolerance);
// For people: the frames and the verdict in one line.
std::string verdict(const ModelComparison& comparison);
// A row for each field, those beyond their tolerance first and those not compared last; fields that neither side has
// are left out.
struct ComparisonTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
ComparisonTable table_of(const ModelComparison& comparison);
// The fields in the table's order.
std::vector<const FieldComparison*> shown_fields(const ModelComparison& comparison);

// The modelV2 messages of a log, or of all segments in a route's or a run's folder, in their order. Damage ends a log
// or leaves out messages; `notes` gets a line for each case. Fails (user) if there is no log.
std::vector<ModelRecord> read_models(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);
// The driverStateV2 messages likewise; read_models() reports damage.
std::vector<DriverRecord> read_drivers(const std::filesystem::path& path);

}  // namespace sparkpilot::drive
