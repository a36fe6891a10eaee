#include "monitor/view.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "monitor/painter.h"

namespace sparkpilot::monitor {
namespace {

constexpr size_t kKept = 2048;  // values kept per curve: two per character on the widest screens
constexpr int kTwoColumns = 100;
constexpr int kMinProcesses = 5;  // the rule, the headings, three rows
constexpr int kHighestCurve = 8;

void append(History::Curve& curve, std::optional<double> value) {
  if (curve.size() >= 2 * kKept) curve.erase(curve.begin(), curve.begin() + kKept);
  curve.push_back(value);
}

// Draws GPUs from the top of `area`, the first ones if not all fit. Returns the row below them.
int stack_gpus(Painter& painter, const Area& area, const std::vector<GpuSample>& gpus) {
  const int count = static_cast<int>(gpus.size());
  const int shown = std::clamp(area.height / painter.gpu_rows(), 0, count);
  int y = area.y;
  for (int i = 0; i < shown; ++i) {
    const int rows = (area.bottom() - y) / (shown - i);
    painter.gpu({area.x, y, area.width, rows}, gpus[static_cast<size_t>(i)], i + 1 == shown ? count - shown : 0);
    y += rows;
  }
  return y;
}

void one_column(Painter& painter, const Area& area, const std::vector<GpuSample>& gpus) {
  const int count = static_cast<int>(gpus.size());
  const int io = std::min(painter.io_rows(area.width), area.height >= 30 ? 5 : area.width < 76 ? 3 : 2);
  const int spare = area.height - painter.cpu_rows() - painter.memory_rows() - io - kMinProcesses;
  // The rows left after each section has its minimum: for curves first, half of the rest for processes.
  int curves = std::max(0, spare - count * painter.gpu_rows());
  const int wanted = (count + 1) * 3;
  if (curves > wanted) curves = wanted + (curves - wanted) / 2;
  const int of_gpus =
      count == 0 ? 0 : std::min(spare, count * painter.gpu_rows() + (curves * count + count) / (count + 1));
  int y = stack_gpus(painter, {area.x, area.y, area.width, of_gpus}, gpus);
  const int of_cpu =
      std::clamp(spare - (y - area.y), 0, count == 0 ? std::min(curves, kHighestCurve) : curves / (count + 1));
  for (const auto& [rows, draw] : {std::pair{painter.cpu_rows() + of_cpu, &Painter::cpu},
                                   std::pair{painter.memory_rows(), &Painter::memory}, std::pair{io, &Painter::io}}) {
    (painter.*draw)({area.x, y, area.width, std::clamp(area.bottom() - y, 0, rows)});
    y += rows;
  }
  painter.processes({area.x, y, area.width, area.bottom() - y});
}

// GPUs to the left of the other sections, processes below.
void two_columns(Painter& painter, const Area& area, const std::vector<GpuSample>& gpus) {
  constexpr int kGap = 2, kCurve = 4;
  const int left = (area.width - kGap) / 2, right = area.width - kGap - left;
  const int io = std::min(painter.io_rows(right), 5), others = painter.memory_rows() + io;
  const int wanted =
      std::max(painter.cpu_rows() + kCurve + others, static_cast<int>(gpus.size()) * (painter.gpu_rows() + kCurve));
  const int least = painter.cpu_rows() + others;
  const int top = std::min(area.height, std::max(least, std::min(wanted, area.height * 3 / 5)));
  stack_gpus(painter, {area.x, area.y, left, top}, gpus);
  const int x = area.x + left + kGap;
  const int cpu = std::clamp(top - others, painter.cpu_rows(), painter.cpu_rows() + kHighestCurve);
  int y = area.y;
  for (const auto& [rows, draw] : {std::pair{cpu, &Painter::cpu}, std::pair{painter.memory_rows(), &Painter::memory},
                                   std::pair{io, &Painter::io}}) {
    (painter.*draw)({x, y, right, std::clamp(area.y + top - y, 0, rows)});
    y += rows;
  }
  painter.processes({area.x, area.y + top, area.width, area.height - top});
}

}  // namespace

void History::add(const Sample& sample) {
  for (auto& [index, curve] : gpus_) {
    const bool there = std::any_of(sample.gpus.begin(), sample.gpus.end(),
                                   [i = index](const GpuSample& gpu) { return gpu.index == i; });
    if (!there) append(curve, std::nullopt);
  }
  for (const GpuSample& gpu : sample.gpus) {
    append(gpus_[gpu.index], gpu.gpu.gpu_percent ? std::optional<double>(*gpu.gpu.gpu_percent) : std::nullopt);
  }
  append(cpu_, sample.cpu.percent);
}

const History::Curve& History::gpu(int index) const {
  static const Curve kNone;
  const auto found = gpus_.find(index);
  return found == gpus_.end() ? kNone : found->second;
}

Canvas draw(const Sample& sample, const History& history, const ViewState& state, int width, int height) {
  Canvas canvas(width, height, state.ascii);
  if (width < kMinWidth || height < kMinHeight) {
    canvas.text(0, 0, fmt::format("{}x{} is too small:", width, height), Ink::text);
    canvas.text(0, 1, fmt::format("{}x{} at least", kMinWidth, kMinHeight), Ink::text);
    return canvas;
  }
  Painter painter(canvas, sample, history, state);
  painter.header();
  painter.footer();
  const Area body{1, 1, width - 2, height - 2};
  if (width >= kTwoColumns && !sample.gpus.empty()) {
    two_columns(painter, body, sample.gpus);
  } else {
    one_column(painter, body, sample.gpus);
  }
  if (state.help) painter.help();
  return canvas;
}

double step_interval(double interval_s, bool longer) {
  static constexpr std::array<double, 8> kSteps = {0.1, 0.25, 0.5, 1, 2, 5, 10, 60};
  if (longer) {
    const auto next = std::upper_bound(kSteps.begin(), kSteps.end(), interval_s);
    return next == kSteps.end() ? std::max(interval_s, kSteps.back()) : *next;
  }
  const auto next = std::lower_bound(kSteps.begin(), kSteps.end(), interval_s);
  return next == kSteps.begin() ? kSteps.front() : *std::prev(next);
}

}  // namespace sparkpilot::monitor
