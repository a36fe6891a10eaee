// Decodes a driving model's flat output, in every era: heads are found by the model's own slices and decoded as in
// openpilot (selfdrive/modeld/parse_model_outputs.py).
//
// All in SI units in the calibrated frame: x forward, y right, z down; orientations are roll, pitch, yaw in radians.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparkpilot/onnx.h"

namespace sparkpilot::drive {

inline constexpr int kPoints = 33, kPlanWidth = 15, kLaneLines = 4, kRoadEdges = 2, kLeads = 3, kLeadTimes = 6;
inline constexpr int kPlanHypotheses = 5, kLeadHypotheses = 2;  // where a head has several
inline constexpr int kLeadWidth = 4, kDesires = 8, kDesireTimes = 4, kMetaTimes = 5, kPressTimes = 6, kFeatures = 512;

// Seconds ahead of a plan's points: 10 (i/32)^2; metres ahead of a line's: 192 (i/32)^2.
constexpr double plan_time(int i) { return 10.0 * (i / 32.0) * (i / 32.0); }
constexpr double line_distance(int i) { return 192.0 * (i / 32.0) * (i / 32.0); }
inline constexpr std::array<float, kLeadTimes> kLeadTimeOffsets{0, 2, 4, 6, 8, 10};
inline constexpr std::array<float, kLeads> kLeadProbTimes{0, 2, 4};
inline constexpr std::array<float, kMetaTimes> kMetaTimeOffsets{2, 4, 6, 8, 10};

// Columns of a plan's point.
enum PlanColumn { kPosition = 0, kVelocity = 3, kAcceleration = 6, kOrientation = 9, kOrientationRate = 12 };

template <size_t N>
struct Gaussian {
  std::array<float, N> mean{}, std{};
};

// The number of elements of an array of these sizes.
constexpr size_t product(size_t a, size_t b, size_t c = 1) { return a * b * c; }

struct MetaOutputs {
  float engaged = 0;
  // Within the next 2, 4, 6, 8 and 10 s.
  std::array<float, kMetaTimes> gas_disengage{}, brake_disengage{}, steer_override{}, hard_brake_3{}, hard_brake_4{},
      hard_brake_5{};
  std::vector<float> gas_press = {}, brake_press = {};  // 6, 5 or none, depending on the era
};

struct ModelOutputs {
  Gaussian<product(kPoints, kPlanWidth)> plan;              // [33, 15], see PlanColumn
  Gaussian<product(kLaneLines, kPoints, 2)> lane_lines;     // [4, 33, (y, z)]; far left, left, right, far right
  Gaussian<product(kRoadEdges, kPoints, 2)> road_edges;     // [2, 33, (y, z)]
  Gaussian<product(kLeads, kLeadTimes, kLeadWidth)> leads;  // [3, 6, (x, y, v, a)]
  std::array<float, kLaneLines> lane_line_probs{};
  std::array<float, kLeads> lead_probs{};  // that the lead exists in 0, 2, 4 s
  std::array<float, kDesires> desire_state{};
  std::array<float, product(kDesireTimes, kDesires)> desire_pred{};
  MetaOutputs meta;
  Gaussian<6> pose, road_transform;  // translation m/s and rotation rad/s, of the device; road from device
  Gaussian<3> wide_from_device_euler;
  std::optional<Gaussian<6>> sim_pose = {};         // era A
  std::optional<float> desired_curvature = {};      // eras A and B, 1/m
  std::optional<std::array<float, 2>> action = {};  // era D: lateral and longitudinal acceleration, m/s^2
  std::array<float, kFeatures> hidden_state{};
};

// One network's share of the outputs.
class OutputParser {
 public:
  // The network has `width` output values. Fails (user) naming a head whose slice does not fit the output or whose
  // width no era has. Unknown heads are ignored.
  OutputParser(const OutputSlices& slices, int64_t width, std::string model);

  // Sets the heads that this network has, and does not change the others. `raw` has `width` values.
  void parse(std::span<const float> raw, ModelOutputs& out) const;
  const std::set<std::string>& heads() const { return heads_; }

 private:
  struct Slice {
    int64_t begin = 0, width = 0;
  };
  const Slice* find(const std::string& head) const;
  void check(const std::string& head, std::initializer_list<int64_t> widths) const;

  std::vector<std::pair<std::string, Slice>> slices_;
  std::set<std::string> heads_;
  int64_t width_;
  std::string model_;
};

}  // namespace sparkpilot::drive
