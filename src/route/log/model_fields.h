// The fields of modelV2 and driverStateV2 messages that are compared, and their tolerances.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "route/log/model_record.h"

namespace sparkpilot::drive {

// A difference is tolerated up to absolute + relative x the larger of the two sizes.
struct Tolerance {
  double absolute = 0, relative = 0;
};

// A field's numbers in one message: its lists one after the other, and the length of each.
struct FieldValues {
  std::vector<float> values;
  std::vector<size_t> lengths;
  void add(const std::vector<float>& list) {
    values.insert(values.end(), list.begin(), list.end());
    lengths.push_back(list.size());
  }
  void add(float value) {
    values.push_back(value);
    lengths.push_back(1);
  }
};

struct FieldInfo {
  const char* name;
  const char* unit;  // "" for shares and probabilities
  Tolerance tolerance;
  const char* reason;  // of the tolerance
};

// To add a field, add a row.
template <typename Record>
struct RecordField {
  FieldInfo info;
  void (*get)(const Record& record, FieldValues& out);
};
using ModelField = RecordField<ModelRecord>;
using DriverField = RecordField<DriverRecord>;

std::span<const ModelField> model_fields();
std::span<const DriverField> driver_fields();
// The model's, then the driver's.
std::span<const FieldInfo> all_fields();

}  // namespace sparkpilot::drive
