// Tolerances from files, and a comparison as JSON and as text.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "route/log/model_compare.h"

namespace sparkpilot::drive {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// The fields that begin like `name`, up to its first underscore; all fields without one.
std::string alike(std::string_view name) {
  const std::string_view stem = name.substr(0, std::min(name.find('_'), size_t{4}));
  std::string some, all;
  for (const FieldInfo& field : all_fields()) {
    const std::string item = (all.empty() ? "" : ", ") + std::string(field.name);
    all += item;
    if (std::string_view(field.name).starts_with(stem)) some += (some.empty() ? "" : ", ") + std::string(field.name);
  }
  return some.empty() ? all : some;
}

size_t index_of(std::string_view name) {
  const auto fields = all_fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  fail("no field \"{}\" to compare; there are {}", name, alike(name));
}

double part(const Json& in, const char* key, double otherwise) {
  if (!in.contains(key)) return otherwise;
  if (!in.at(key).is_number()) fail("expected a number as \"{}\", got {}", key, json_text(in.at(key)));
  return in.at(key).get<double>();
}

std::string shown(const std::optional<double>& value) { return value ? fmt::format("{:.3g}", *value) : "-"; }

// The worst frames, and further remarks.
std::string notes(const FieldComparison& field) {
  if (field.absent_in_ours) return "not in ours";
  if (field.absent_in_reference) return "not in the reference";
  std::string out;
  for (const FrameDifference& frame : field.worst) out += fmt::format("{}{}", out.empty() ? "" : ", ", frame.frame_id);
  if (field.beyond) out += fmt::format("; {} beyond", field.beyond);
  if (field.nan_differences) out += fmt::format("; {} NaN on one side", field.nan_differences);
  if (field.length_differences) out += fmt::format("; {} frames of other lengths", field.length_differences);
  return out;
}

}  // namespace

Tolerances::Tolerances() {
  for (const FieldInfo& field : all_fields()) list_.push_back(field.tolerance);
}

void Tolerances::set(std::string_view field, const Tolerance& tolerance) {
  const size_t index = index_of(field);
  for (const double value : {tolerance.absolute, tolerance.relative}) {
    if (!std::isfinite(value) || value < 0) fail("a tolerance of {} for {}: expected 0 or more", value, field);
  }
  list_[index] = tolerance;
}

void Tolerances::scale(double factor) {
  if (!std::isfinite(factor) || factor < 0) fail("tolerances times {}: expected 0 or more", factor);
  for (Tolerance& tolerance : list_) tolerance.absolute *= factor, tolerance.relative *= factor;
}

Tolerances Tolerances::load(const std::filesystem::path& file) {
  const std::string text = read_file(file, int64_t{1} << 20);
  Tolerances out;
  try {
    const Json in = parse_json(text);
    if (!in.is_object()) fail(R"(expected {{"field": {{"absolute": ..., "relative": ...}}}})");
    for (const auto& [name, item] : in.items()) {
      const Tolerance before = out.list_[index_of(name)];
      if (!item.is_object()) fail(R"(expected "absolute" and "relative" for {}, got {})", name, json_text(item));
      for (const auto& [key, value] : item.items()) {
        if (key != "absolute" && key != "relative")
          fail(R"(expected "absolute" and "relative" for {}, got "{}")", name, key);
      }
      out.set(name, {part(item, "absolute", before.absolute), part(item, "relative", before.relative)});
    }
  } catch (const Json::exception& error) {
    fail("{}: no tolerances ({})", file.string(), json_fault(error));
  } catch (const Error& error) {
    fail("{}: {}", file.string(), error.what());
  }
  return out;
}

nlohmann::ordered_json to_json(const ModelComparison& comparison) {
  Json fields = Json::object();
  for (const FieldComparison& f : comparison.fields) {
    Json worst = Json::array();
    for (const FrameDifference& frame : f.worst)
      worst.push_back({{"frame_id", frame.frame_id}, {"difference", number(frame.difference)}});
    const bool compared = f.outcome() != Outcome::not_compared;
    fields[f.name] = {{"unit", f.unit},
                      {"outcome", to_text(f.outcome())},
                      {"ok", compared ? Json(f.ok) : Json()},
                      {"values", f.values},
                      {"mean_abs", number(f.mean_abs)},
                      {"rms", number(f.rms)},
                      {"p99", number(f.p99)},
                      {"max", number(f.max)},
                      {"tolerance_absolute", f.tolerance.absolute},
                      {"tolerance_relative", f.tolerance.relative},
                      {"default_tolerance_reason", all_fields()[index_of(f.name)].reason},
                      {"values_beyond", f.beyond},
                      {"nan_differences", f.nan_differences},
                      {"frames_of_other_lengths", f.length_differences},
                      {"absent_in_ours", f.absent_in_ours},
                      {"absent_in_reference", f.absent_in_reference},
                      {"worst", worst}};
  }
  return {{"ok", comparison.ok()},
          {"frames", comparison.frames},
          {"frames_only_ours", comparison.only_ours},
          {"frames_only_reference", comparison.only_reference},
          {"driver_frames", comparison.driver_frames},
          {"repeated_messages", comparison.repeated},
          {"fields", fields}};
}

std::string to_text(const Tolerance& tolerance) {
  return fmt::format("{:g} + {:g} %", tolerance.absolute, tolerance.relative * 100);
}

std::string_view to_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::within: return "within";
    case Outcome::beyond: return "beyond";
    case Outcome::not_compared: break;
  }
  return "not compared";
}

std::string verdict(const ModelComparison& comparison) {
  return fmt::format("{} compared, {} only in ours, {} only in the reference: {}", count_of(comparison.frames, "frame"),
                     comparison.only_ours, comparison.only_reference,
                     comparison.ok()                  ? "the same within the tolerances"
                     : comparison.only_reference == 0 ? "not the same"
                                                      : "not the same, frames of the reference are missing");
}

std::vector<const FieldComparison*> shown_fields(const ModelComparison& comparison) {
  std::vector<const FieldComparison*> out;
  for (const Outcome outcome : {Outcome::beyond, Outcome::within, Outcome::not_compared}) {
    for (const FieldComparison& field : comparison.fields) {
      if (field.outcome() == outcome && !(field.absent_in_ours && field.absent_in_reference)) out.push_back(&field);
    }
  }
  return out;
}

ComparisonTable table_of(const ModelComparison& comparison) {
  ComparisonTable out{{"field", "outcome", "unit", "values", "mean", "rms", "p99", "max", "tolerance", "worst frames"},
                      {}};
  for (const FieldComparison* field : shown_fields(comparison)) {
    out.rows.push_back({field->name, std::string(to_text(field->outcome())), field->unit, std::to_string(field->values),
                        shown(field->mean_abs), shown(field->rms), shown(field->p99), shown(field->max),
                        to_text(field->tolerance), notes(*field)});
  }
  return out;
}

}  // namespace sparkpilot::drive
