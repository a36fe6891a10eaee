#include "cli/drive_demo.h"

#include <algorithm>

#include "base/error.h"
#include "cli/shipped.h"
#include "cli/terminal.h"
#include "route/synth/synth.h"

namespace sparkpilot::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kDemoRoute = "route";
constexpr const char* kLog = "000186a5--de30de30de";

// Of a seed that the model was not trained on (models/demo_supercombo.md). The road camera alone: the small video does
// not show the asphalt's texture, by which the model sees the speed, and a second one would take as long again.
drive::SynthOptions demo_road() {
  drive::SynthOptions road;
  road.seed = 100005, road.seconds = 8;
  road.device = "mici";
  road.road = drive::synth::RoadKind::winding, road.light = drive::synth::Light::day, road.wet = false;
  road.wide = road.qcamera = false;
  road.log_id = kLog;
  return road;
}

// The road that an earlier demo made, or began.
bool has_road(const fs::path& out) {
  std::error_code none;
  const fs::directory_iterator found(out / kDemoRoute, none);
  return std::any_of(begin(found), end(found),
                     [](const auto& entry) { return entry.path().filename().string().starts_with(kLog); });
}

bool is_of_a_demo(const std::string& name) {
  const auto known = {kDemoRoute, "summary.json", "summary.html", "compare.html", "compare.mp4", ".sparkpilot.lock"};
  return name.starts_with(kLog) || std::find(known.begin(), known.end(), name) != known.end();
}

}  // namespace

fs::path demo_model() {
  std::string places;
  for (const fs::path& file : shipped("models/demo_supercombo.onnx")) {
    std::error_code none;
    if (fs::is_regular_file(file, none)) return file;
    places += (places.empty() ? "" : ", ") + file.string();
  }
  fail("--demo: the small model did not come with this program: looked for {}", places);
}

void check_demo_folder(const fs::path& out) {
  std::error_code none;
  const bool ours = has_road(out);
  for (const auto& entry : fs::directory_iterator(out, none)) {
    const std::string name = entry.path().filename().string();
    if (!ours || !is_of_a_demo(name))
      fail("{}: holds {}, which is not a demo's: choose another folder with --out", out.string(), name);
  }
}

fs::path demo_route(const fs::path& out) { return out / kDemoRoute; }

void make_demo_route(const Program& program, const fs::path& out) {
  drive::SynthOptions road = demo_road();
  road.threads = chosen_threads(program).value_or(0);
  Progress progress(!program.quiet, "a road for the demo");
  drive::synth_route(demo_route(out), road, [&](double done) { progress.at(done); });
}

}  // namespace sparkpilot::cli
