// Draws the terminal's view: from samples to a canvas, without a terminal.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "monitor/canvas.h"
#include "monitor/sample.h"

namespace sparkpilot::monitor {

// Past values for the curves, in bounded memory.
class History {
 public:
  using Curve = std::vector<std::optional<double>>;
  void add(const Sample& sample);
  const Curve& gpu(int index) const;
  const Curve& cpu() const { return cpu_; }

 private:
  std::map<int, Curve> gpus_;
  Curve cpu_;
};

enum class Sort { gpu, cpu, memory, pid };

struct ViewState {
  std::string title = {};  // the machine's name
  std::string clock = {};  // "20:15:30"
  Sort sort = Sort::gpu;
  bool paused = false, help = false, ascii = false;
  double interval_s = 1;
};

inline constexpr int kMinWidth = 40, kMinHeight = 10;

// For any size; below the minimum it says what size it needs.
Canvas draw(const Sample& sample, const History& history, const ViewState& state, int width, int height);

// The next longer or shorter interval, for + and -.
double step_interval(double interval_s, bool longer);

}  // namespace sparkpilot::monitor
