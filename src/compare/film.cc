#include "compare/film.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "drive/overlay_frame.h"
#include "drive/segment_cameras.h"
#include "drive/warm_up.h"
#include "route/video/jpeg.h"
#include "route/video/writer.h"

namespace sparkpilot::compare {
namespace {

namespace fs = std::filesystem;
using drive::ModelRecord;

constexpr int kQuantizer = 25, kJpegQuality = 5, kFramesPerSecond = 20;

using Models = std::map<uint32_t, const ModelRecord*>;

const ModelRecord* at(const Models& models, uint32_t frame_id) {
  const auto found = models.find(frame_id);
  return found == models.end() ? nullptr : found->second;
}

class FilmMaker {
 public:
  FilmMaker(const Drive& ours, const Drive& reference, const FilmOptions& options)
      : options_(options), ours_(drive::by_frame(ours.models)), reference_(drive::by_frame(reference.models)) {
    names_ = {ours.name, reference.name};
    std::vector<fs::path> folders;  // of both, each once: a folder may hold several segments
    for (const Drive* drive : {&ours, &reference}) {
      for (const fs::path& folder : drive->recordings) {
        if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
      }
    }
    for (size_t i = 0; i < folders.size() && !stopped(); ++i) {
      try {
        const drive::Route route = drive::find_route(folders[i].string());
        for (const drive::Segment& segment : route.segments) add_segment(route, segment);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::user || writing_) throw;
        film_.notes.emplace_back(error.what());
      }
      if (options.progress) options.progress(static_cast<double>(i + 1) / static_cast<double>(folders.size()));
    }
    if (stopped()) film_.notes.emplace_back("drawing was stopped");
    if (folders.empty()) film_.notes.emplace_back("no pictures: where the recording lies is not known");
  }

  Film finish() {
    if (video_ && !stopped()) {
      video_->commit();
      film_.written = true;
    }
    return std::move(film_);
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  bool wanted(uint32_t id) const {
    return options_.pictures.contains(id) || (!options_.film.empty() && (at(ours_, id) || at(reference_, id)));
  }

  void add_segment(const drive::Route& route, const drive::Segment& segment) {
    const drive::Timeline timeline = drive::segment_timeline(route, segment, {.models = false});
    drive::DriveOptions run;
    run.overlay_width = options_.width;
    run.wide = false;
    const auto& index = drive::road_index(segment, timeline, run);
    const auto first = std::find_if(index.begin(), index.end(), [&](const auto& f) { return wanted(f.frame_id); });
    if (first == index.end()) return;
    const auto last = std::find_if(index.rbegin(), index.rend(), [&](const auto& f) { return wanted(f.frame_id); });
    drive::SegmentJob job;
    job.segment = &segment;
    job.timeline = &timeline;
    job.lanes.push_back({.options = &run, .folder = segment.folder.empty() ? "." : segment.folder});
    job.shares = drive::share_threads(options_.threads > 0 ? options_.threads : available_processors(), false, true);
    job.first = first->index;
    drive::SegmentCameras cameras(job, calibration_);
    if (!start_) start_ = static_cast<double>(index.front().timestamp_eof) * 1e-9;
    while (std::optional<drive::PreparedFrame> frame = cameras.next()) {
      if (stopped() || frame->mark.index > last->index) break;
      if (wanted(frame->mark.frame_id)) draw(cameras, timeline, *frame, job.shares.encode);
      cameras.road().recycle(std::move(*frame));
    }
    if (!timeline.calibration.empty()) calibration_ = std::prev(timeline.calibration.end())->second;
  }

  void draw(drive::SegmentCameras& cameras, const drive::Timeline& timeline, drive::PreparedFrame& in, int threads) {
    const uint32_t id = in.mark.frame_id;
    const int width = in.canvas.width(), height = in.canvas.height();
    if (!overlay_) {
      overlay_.emplace(
          drive::OverlayOptions{.width = width, .height = height, .ours = names_.first, .recorded = names_.second});
      size_ = {width, height};
    }
    if (size_ != std::pair(width, height)) {
      fail("frame {}: {}x{} pixels, those before it {}x{}", id, width, height, size_.first, size_.second);
    }
    drive::OverlayFrame frame =
        drive::overlay_frame(timeline, in, drive::canvas_intrinsics(cameras.road_camera(), width, height), *start_);
    frame.ours = at(ours_, id);
    frame.recorded = at(reference_, id);
    overlay_->draw(frame, in.canvas);
    if (options_.pictures.contains(id)) film_.pictures[id] = drive::encode_jpeg(in.canvas.view(), kJpegQuality);
    if (options_.film.empty()) return;
    writing_ = true;
    if (!video_) {
      video_.emplace(
          options_.film,
          drive::VideoOptions{
              .width = width, .height = height, .quality = kQuantizer, .constant_quantizer = true, .threads = threads});
    }
    film_.seconds[id] = static_cast<double>(video_->frames()) / kFramesPerSecond;
    video_->write(in.canvas.view());
    writing_ = false;
  }

  const FilmOptions& options_;
  Models ours_, reference_;
  std::pair<std::string, std::string> names_;
  std::optional<drive::Vector3> calibration_;
  std::optional<double> start_;
  std::optional<drive::Overlay> overlay_;
  std::pair<int, int> size_;
  std::optional<drive::VideoWriter> video_;
  bool writing_ = false;  // an error now is one of the film that is written
  Film film_;
};

}  // namespace

Film make_film(const Drive& ours, const Drive& reference, const FilmOptions& options) {
  return FilmMaker(ours, reference, options).finish();
}

}  // namespace sparkpilot::compare
