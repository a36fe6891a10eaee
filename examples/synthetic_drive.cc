// The vision and the policy model on synthetic camera frames, as openpilot runs them: 20 frames a second, the vision
// model's features kept for the policy.
//
//   build/synthetic_drive VISION POLICY [FRAMES]
//
// It shows how the library is used, and how much of a frame's 50 ms the models take here. The frames are a drawing and
// stand-in models have random weights, so nothing that comes out says anything about a road.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparkpilot/error.h"
#include "sparkpilot/onnx.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace {

constexpr int kChannels = 6, kHeight = 128, kWidth = 256;  // of one frame: four of luma, two of chroma
constexpr int kFrameBytes = kChannels * kHeight * kWidth;
constexpr int kStride = 4;           // the models see every fourth frame: 5 Hz of 20
constexpr double kFrameTime = 50.0;  // ms

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Dark ground below a bright sky and two lane lines that drift from side to side.
std::vector<uint8_t> draw_frame(int index) {
  std::vector<uint8_t> frame(kFrameBytes, 128);  // chroma: grey
  const double drift = 20 * std::sin(index * 0.05);
  for (int channel = 0; channel < 4; ++channel) {
    for (int y = 0; y < kHeight; ++y) {
      const double depth = std::max(0.0, (y - 40.0) / (kHeight - 40.0));
      for (int x = 0; x < kWidth; ++x) {
        const double from_lane = std::abs(std::abs(x - kWidth / 2.0 - drift * depth) - 90 * depth);
        const bool line = depth > 0 && from_lane < 1 + 4 * depth && (y + 6 * index) % 32 < 20;
        frame[(static_cast<size_t>(channel) * kHeight + static_cast<size_t>(y)) * kWidth + static_cast<size_t>(x)] =
            static_cast<uint8_t>(y < 40 ? 200 - y
                                 : line ? 230
                                        : 60 + y / 4 + (x * 7 + y * 13) % 5);
      }
    }
  }
  return frame;
}

// The newest `count` vectors of `size` floats, kStride frames apart, zeros before the first.
class FeatureQueue {
 public:
  FeatureQueue(int64_t count, int64_t size)
      : size_(static_cast<size_t>(size)), values_(static_cast<size_t>((count - 1) * kStride + 1) * size_) {}

  void push(std::span<const float> features) {
    std::copy(values_.begin() + static_cast<std::ptrdiff_t>(size_), values_.end(), values_.begin());
    std::copy(features.begin(), features.end(), values_.end() - static_cast<std::ptrdiff_t>(size_));
  }
  void copy_to(std::span<float> out) const {
    for (size_t to = 0, from = 0; to < out.size(); to += size_, from += kStride * size_) {
      std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(from), size_,
                  out.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }

 private:
  size_t size_;
  std::vector<float> values_;
};

// Where the vision model's flat output holds the features that the policy takes.
std::pair<int64_t, int64_t> feature_slice(const Graph& vision, int64_t length) {
  for (const auto& [name, slice] : output_slices(vision)) {
    if (name == "hidden_state") return slice.resolve(length);
  }
  throw Error(ErrorKind::user, "the vision model's metadata names no slice hidden_state");
}

void print_times(const char* what, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double share) { return ms[static_cast<size_t>(share * static_cast<double>(ms.size() - 1))]; };
  std::printf("%-8s p50 %7.2f ms   p99 %7.2f ms   %4.0f %% of a frame's %.0f ms\n", what, at(0.5), at(0.99),
              100 * at(0.5) / kFrameTime, kFrameTime);
}

void drive(const std::string& vision_file, const std::string& policy_file, int frames) {
  Graph graph = load_onnx(vision_file);
  const Graph described = graph;
  Session vision(std::move(graph));
  Session policy(load_onnx(policy_file));
  const std::string vision_out = vision.outputs()[0].name, policy_out = policy.outputs()[0].name;

  const auto traffic = policy.input<float>("traffic_convention");
  std::fill(traffic.begin(), traffic.end(), 0.0f);
  traffic[0] = 1;  // traffic on the right
  const auto desire = policy.input<float>("desire_pulse");
  std::fill(desire.begin(), desire.end(), 0.0f);
  const auto buffer = policy.input<float>("features_buffer");
  const Shape shape = policy.input("features_buffer").shape;
  FeatureQueue queue(shape[1], shape[2]);

  std::vector<std::vector<uint8_t>> recent(kStride + 1, std::vector<uint8_t>(kFrameBytes, 128));
  std::vector<float> features(static_cast<size_t>(shape[2]));
  std::vector<double> vision_ms, policy_ms, total_ms;
  int64_t not_finite = 0;
  for (int i = 0; i < frames; ++i) {
    std::rotate(recent.begin(), recent.begin() + 1, recent.end());
    recent.back() = draw_frame(i);
    const double start = now_ms();
    for (const char* name : {"img", "big_img"}) {
      const auto image = vision.input<uint8_t>(name);
      std::copy(recent.front().begin(), recent.front().end(), image.begin());  // the older frame first
      std::copy(recent.back().begin(), recent.back().end(), image.begin() + kFrameBytes);
    }
    vision.run();
    const double seen = now_ms();
    const ConstView out = vision.output(vision_out);
    const auto [begin, end] = feature_slice(described, out.elements());
    if (end - begin != shape[2]) {
      throw Error(ErrorKind::user, "hidden_state has " + std::to_string(end - begin) + " values, the policy takes " +
                                       std::to_string(shape[2]));
    }
    for (int64_t j = begin; j < end; ++j) {
      features[static_cast<size_t>(j - begin)] = static_cast<float>(load_element(out.dtype, out.data, j));
    }
    queue.push(features);
    queue.copy_to(buffer);
    policy.run();
    const double done = now_ms();
    vision_ms.push_back(seen - start);
    policy_ms.push_back(done - seen);
    total_ms.push_back(done - start);
    const ConstView plan = policy.output(policy_out);
    for (int64_t j = 0; j < plan.elements(); ++j) not_finite += !std::isfinite(load_element(plan.dtype, plan.data, j));
  }
  std::printf("%d frames, %d threads\n", frames, vision.threads());
  print_times("vision", vision_ms);
  print_times("policy", policy_ms);
  print_times("together", total_ms);
  if (not_finite > 0) {
    throw Error(ErrorKind::internal, std::to_string(not_finite) + " values of the policy's output are not finite");
  }
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  const int frames = argc > 3 ? std::atoi(argv[3]) : 300;
  if (argc < 3 || frames < 1) {
    std::fprintf(stderr, "usage: synthetic_drive VISION POLICY [FRAMES]\n");
    return 2;
  }
  try {
    sparkpilot::drive(argv[1], argv[2], frames);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "synthetic_drive: %s\n", error.what());
    return 2;
  }
}
