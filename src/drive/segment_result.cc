#include "drive/segment_result.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace sparkpilot::drive {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// Columns instead of objects: a quarter of the bytes. NaN stands for absent, and JSON writes it as null.
struct Column {
  const char* name;
  std::optional<double> (*get)(const FrameResult&);
  void (*set)(FrameResult&, double);
  bool always = false;  // a number in every frame: null is NaN, which JSON has not
};

template <auto Member>
constexpr Column plain(const char* name) {
  return {name, [](const FrameResult& f) -> std::optional<double> { return static_cast<double>(f.*Member); },
          [](FrameResult& f, double value) {
            using Type = std::remove_reference_t<decltype(f.*Member)>;
            if constexpr (std::is_same_v<Type, bool>) f.*Member = value != 0;
            else f.*Member = static_cast<Type>(value);
          },
          std::is_floating_point_v<std::remove_cvref_t<decltype(std::declval<FrameResult>().*Member)>>};
}

template <auto Member>
constexpr Column maybe(const char* name) {
  return {name,
          [](const FrameResult& f) -> std::optional<double> {
            return f.*Member ? std::optional(static_cast<double>(*(f.*Member))) : std::nullopt;
          },
          [](FrameResult& f, double value) { f.*Member = static_cast<float>(value); }};
}

using F = FrameResult;
constexpr Column kColumns[] = {
    plain<&F::frame_id>("frame_id"),
    plain<&F::index>("index"),
    plain<&F::time>("time_s"),
    plain<&F::valid>("valid"),
    plain<&F::model>("model"),
    plain<&F::vision_ms>("vision_ms"),
    plain<&F::policy_ms>("policy_ms"),
    plain<&F::late_ms>("late_ms"),
    plain<&F::curvature>("curvature"),
    plain<&F::acceleration>("acceleration"),
    plain<&F::lead_prob>("lead_prob"),
    plain<&F::lead_x>("lead_x_m"),
    plain<&F::engaged_prob>("engaged_prob"),
    maybe<&F::v_ego>("v_ego"),
    maybe<&F::driven_curvature>("driven_curvature"),
    maybe<&F::driven_acceleration>("driven_acceleration"),
    maybe<&F::recorded_curvature>("recorded_curvature"),
    maybe<&F::recorded_acceleration>("recorded_acceleration"),
};

using Errors = std::optional<PlanError> (FrameResult::*)[kHorizons];

Json number(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

// JSON has no NaN: it is written as null.
float number_or_nan(const Json& value) {
  return value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>();
}

void put_errors(Json& out, const std::string& name, const std::vector<FrameResult>& frames, Errors member) {
  Json list = Json::array();
  for (const FrameResult& frame : frames) {
    Json row = Json::array();
    for (const auto& error : frame.*member) {
      row.push_back(error ? Json{error->along, error->across, error->heading_deg} : Json());
    }
    list.push_back(row);
  }
  out[name] = list;
}

void take_errors(const Json& in, const char* name, std::vector<FrameResult>& frames, Errors member) {
  const Json& list = in.at(name);
  for (size_t i = 0; i < frames.size(); ++i) {
    for (size_t h = 0; h < kHorizons; ++h) {
      const Json& item = list.at(i).at(h);
      if (item.is_null()) continue;
      (frames[i].*member)[h] =
          PlanError{number_or_nan(item.at(0)), number_or_nan(item.at(1)), number_or_nan(item.at(2))};
    }
  }
}

Json frames_json(const std::vector<FrameResult>& frames) {
  Json out;
  for (const Column& column : kColumns) {
    Json values = Json::array();
    for (const FrameResult& frame : frames) values.push_back(number(column.get(frame)));
    out[column.name] = values;
  }
  Json lanes = Json::array();
  for (const FrameResult& frame : frames) lanes.push_back(frame.lane_probs);
  out["lane_probs"] = lanes;
  put_errors(out, "plan_errors", frames, &FrameResult::errors);
  put_errors(out, "recorded_plan_errors", frames, &FrameResult::recorded_errors);
  return out;
}

std::vector<FrameResult> frames_from(const Json& in) {
  std::vector<FrameResult> frames(in.at("frame_id").size());
  for (const Column& column : kColumns) {
    const Json& values = in.at(column.name);
    if (values.size() != frames.size())
      fail("column {} has {} values, expected {}", column.name, values.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      if (!values[i].is_null()) column.set(frames[i], values[i].get<double>());
      else if (column.always) column.set(frames[i], std::numeric_limits<double>::quiet_NaN());
    }
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    for (size_t lane = 0; lane < 4; ++lane) {
      frames[i].lane_probs[lane] = number_or_nan(in.at("lane_probs").at(i).at(lane));
    }
  }
  take_errors(in, "plan_errors", frames, &FrameResult::errors);
  take_errors(in, "recorded_plan_errors", frames, &FrameResult::recorded_errors);
  return frames;
}

}  // namespace

std::string state_of(const SegmentResult& result) {
  if (result.left_out) return "left out";
  return !result.complete ? "stopped" : result.notes.empty() ? "whole" : "with notes";
}

Json to_json(const CameraResult& c) {
  return {{"name", c.name},
          {"file", c.file},
          {"width", c.width},
          {"height", c.height},
          {"indexed", c.indexed},
          {"decoded", c.decoded},
          {"undecodable", c.undecodable},
          {"unknown_to_index", c.unknown_to_index}};
}

Json to_json(const SegmentResult& r) {
  Json cameras = Json::array();
  for (const CameraResult& camera : r.cameras) cameras.push_back(to_json(camera));
  return {{"version", kVersion},
          {"number", r.number},
          {"name", r.name},
          {"run", r.run},
          {"complete", r.complete},
          {"left_out", r.left_out},
          {"log", r.log},
          {"driven_path", r.driven_path},
          {"seconds", r.seconds},
          {"dropped", r.dropped},
          {"recorded_models", r.recorded_models},
          {"recorded_drawn", r.recorded_drawn},
          {"driver_frames", r.driver_frames},
          {"devices", r.devices},
          {"files", r.files},
          {"stages",
           {{"decode_road_ms", r.stages.decode_road_ms},
            {"decode_wide_ms", r.stages.decode_wide_ms},
            {"infer_ms", r.stages.infer_ms},
            {"write_ms", r.stages.write_ms}}},
          {"cameras", cameras},
          {"notes", r.notes},
          {"pictures", r.pictures},
          {"frames", frames_json(r.frames)}};
}

SegmentResult segment_result_from(const std::string& text, const std::filesystem::path& file) {
  try {
    const Json in = parse_json(text);
    if (in.at("version").get<int>() != kVersion) fail("version {}, expected {}", in.at("version").get<int>(), kVersion);
    SegmentResult out;
    in.at("number").get_to(out.number);
    in.at("name").get_to(out.name);
    in.at("run").get_to(out.run);
    in.at("complete").get_to(out.complete);
    in.at("left_out").get_to(out.left_out);
    in.at("log").get_to(out.log);
    in.at("driven_path").get_to(out.driven_path);
    in.at("seconds").get_to(out.seconds);
    in.at("dropped").get_to(out.dropped);
    in.at("recorded_models").get_to(out.recorded_models);
    in.at("recorded_drawn").get_to(out.recorded_drawn);
    in.at("driver_frames").get_to(out.driver_frames);
    if (in.contains("devices")) in["devices"].get_to(out.devices);  // earlier versions did not keep them
    if (in.contains("files")) in["files"].get_to(out.files);
    in.at("notes").get_to(out.notes);
    in.at("pictures").get_to(out.pictures);
    const Json& stages = in.at("stages");
    out.stages = {stages.at("decode_road_ms"), stages.at("decode_wide_ms"), stages.at("infer_ms"),
                  stages.at("write_ms")};
    for (const Json& c : in.at("cameras")) {
      out.cameras.push_back({c.at("name"), c.at("file"), c.at("width"), c.at("height"), c.at("indexed"),
                             c.at("decoded"), c.at("undecodable"), c.at("unknown_to_index")});
    }
    out.frames = frames_from(in.at("frames"));
    return out;
  } catch (const Json::exception& error) {
    fail("{}: not a segment's result ({})", file.string(), json_fault(error));
  } catch (const Error& error) {
    fail("{}: not a segment's result: {}", file.string(), error.what());
  }
}

}  // namespace sparkpilot::drive
