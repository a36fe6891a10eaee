// The result of driving a segment; kept next to its log as segment.json, so that a summary needs nothing else and a
// stopped run can continue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "route/frame_result.h"

namespace sparkpilot::drive {

struct CameraResult {
  std::string name;  // "road", "wide", "driver"
  std::string file;
  int width = 0, height = 0;
  int64_t indexed = 0, decoded = 0, undecodable = 0, unknown_to_index = 0;
};

// Milliseconds per frame that each stage worked: elapsed time, not summed over its threads.
struct StageTimes {
  double decode_road_ms = 0, decode_wide_ms = 0, infer_ms = 0, write_ms = 0;
};

struct SegmentResult {
  int number = 0;
  std::string name;  // its folder in the output: "<log id>--<n>"
  std::string run;   // models, precision, options: equal texts mean the same run
  bool complete = false;
  bool left_out = false;         // it could not be driven; the note says why
  std::string log;               // the log that was read
  std::string driven_path = {};  // the source of the driven path; empty without poses
  std::vector<CameraResult> cameras;
  std::vector<FrameResult> frames;
  std::vector<std::string> notes;     // what was missing or damaged
  std::vector<std::string> pictures;  // files of key frames, relative to the segment's folder
  int64_t dropped = 0;                // lost frames, before recorded ones
  int64_t recorded_models = 0, recorded_drawn = 0;
  int64_t driver_frames = 0;                        // frames that the driver monitoring model ran on
  std::map<std::string, std::string> devices = {};  // where each network ran, by its role: "cuda:0"
  std::map<std::string, int64_t> files = {};        // bytes of its log and video, by their names
  double seconds = 0;                               // duration of the run
  StageTimes stages;
};

// "whole", "with notes", "stopped", "left out".
std::string state_of(const SegmentResult& result);

nlohmann::ordered_json to_json(const CameraResult& camera);
nlohmann::ordered_json to_json(const SegmentResult& result);
// Fails (user) naming `file` if the text is not such a result.
SegmentResult segment_result_from(const std::string& text, const std::filesystem::path& file);

}  // namespace sparkpilot::drive
