// The sections of the view, each drawn into an area that the layout gives it.
#pragma once

#include <string>
#include <vector>

#include "monitor/canvas.h"
#include "monitor/sample.h"
#include "monitor/view.h"

namespace sparkpilot::monitor {

struct Area {
  int x = 0, y = 0, width = 0, height = 0;
  int end() const { return x + width; }
  int bottom() const { return y + height; }
};

class RightWords;

// A section with too little room omits what matters least; one with more room draws a curve.
class Painter {
 public:
  Painter(Canvas& canvas, const Sample& sample, const History& history, const ViewState& state)
      : canvas_(canvas), sample_(sample), history_(history), state_(state) {}

  // Rows that sections take without a curve.
  int gpu_rows() const;
  int cpu_rows() const;
  int memory_rows() const;
  int io_rows(int width) const;

  void header();
  void footer();
  void help();
  // `hidden`: the number of GPUs without room.
  void gpu(const Area& area, const GpuSample& sample, int hidden);
  void cpu(const Area& area);
  void memory(const Area& area);
  void io(const Area& area);
  void processes(const Area& area);

 private:
  bool unified() const;
  static bool side_by_side(int width) { return width >= 76; }  // disks next to ports
  RightWords rule(const Area& area, const std::string& title, const std::string& more, Ink ink);
  int labelled_bar(const Area& area, int y, const std::string& label, std::optional<double> part, Ink ink,
                   const std::string& text, bool is_known);
  void gpu_extras(const Area& area, int x, int y, const GpuSample& sample);
  void processors(int x, int end, int y, const std::vector<int>& numbers);
  struct Flow;
  void flow(const Area& area, const std::string& name, const Flow& first, const Flow& second, int label_width);
  std::vector<ProcessSample> sorted() const;

  Canvas& canvas_;
  const Sample& sample_;
  const History& history_;
  const ViewState& state_;
};

}  // namespace sparkpilot::monitor
